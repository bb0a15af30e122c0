//! Nodes with GPUs: device nodes, fake NVML, and what Slurm makes of them.

use std::time::Duration;

use harness::{Cluster, Plugins, Release, Scenario, User};

const PATIENCE: Duration = Duration::from_secs(60);

/// Those that have a stock gpu/nvml: Debian testing's is not to be had.
fn with_stock_plugin() -> impl Iterator<Item = Release> {
    Release::under_test()
        .into_iter()
        .filter(|release| Release::FULL.contains(release))
}

#[test]
fn a_job_opens_its_own_devices_and_no_others() {
    for release in Release::under_test() {
        let cluster = Cluster::builder(release)
            .gpu_devices(8)
            .gres_conf("Name=gpu File=/dev/nvidia[0-7]")
            .node_gres("gpu:8")
            .plugins(Plugins::None)
            .constrain_devices(true)
            .start()
            .unwrap();
        let look =
            "echo $CUDA_VISIBLE_DEVICES; for n in 0 1 2 7; do cat /dev/nvidia$n 2>&1; done; true";
        let srun = cluster
            .command("srun")
            .args(["--gres=gpu:2", "sh", "-c", look])
            .user(User::Alice);
        let said = srun.run().unwrap().ok().unwrap().stdout;
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some("0,1"));
        // ENXIO: the device is the job's, and has no driver behind it. EPERM: it is not.
        for wanted in [
            "No such device",
            "No such device",
            "not permitted",
            "not permitted",
        ] {
            let line = lines.next().unwrap();
            assert!(line.contains(wanted), "{said}");
        }
        cluster.stop().unwrap();
    }
}

/// What `slurmd -G` says of GRES.
fn gres(cluster: &Cluster, node: &str) -> Vec<String> {
    let said = cluster.slurmd_g(node).unwrap().ok().unwrap();
    said.stderr
        .lines()
        .filter(|line| line.contains("Gres Name="))
        .map(str::to_owned)
        .collect()
}

#[test]
fn stock_slurm_finds_the_gpus_of_a_board() {
    for release in with_stock_plugin() {
        let cluster = Cluster::builder(release)
            .nodes(2)
            .board("8xh100-sxm5")
            .plugins(Plugins::Stock)
            .gres_conf("AutoDetect=nvml")
            .node_gres("gpu:h100:8")
            .start()
            .unwrap();
        let found = gres(&cluster, cluster.node(1));
        assert_eq!(found.len(), 8, "{found:?}");
        assert!(
            found
                .iter()
                .all(|line| line.contains("h100") && line.contains("Cores=")),
            "{found:?}"
        );
        let out = cluster
            .run("srun", ["-N2", "--gres=gpu:h100:8", "true"])
            .unwrap();
        out.ok().unwrap();
        // Each node has a /dev, a /sys and GPUs of its own.
        let uuids = |node: &str| {
            let look =
                "cat /proc/driver/nvidia/gpus/*/information | grep UUID; ls /sys/bus/pci/devices";
            cluster
                .command("sh")
                .args(["-c", look])
                .on(node)
                .run()
                .unwrap()
                .ok()
                .unwrap()
                .stdout
        };
        let (one, two) = (uuids(cluster.node(1)), uuids(cluster.node(2)));
        assert_ne!(one, two);
        assert!(one.matches("GPU-").count() == 8, "{one}");
        cluster.stop().unwrap();
    }
}

#[test]
fn a_node_differs_from_the_others_and_changes() {
    for release in with_stock_plugin() {
        let mut half = Scenario::board("8xh100-sxm5");
        half.gpus = Some(4);
        let cluster = Cluster::builder(release)
            .nodes(2)
            .board("8xh100-sxm5")
            .node_scenario(2, half.clone())
            .plugins(Plugins::Stock)
            .gres_conf("AutoDetect=nvml")
            .node_gres("gpu:h100:4")
            .dry()
            .unwrap();
        let device = |node: &str, number: u32| {
            cluster
                .path(node, &format!("/dev/nvidia{number}"))
                .unwrap()
                .exists()
        };
        let (one, two) = (cluster.node(1), cluster.node(2));
        assert!(device(one, 7) && device(two, 3) && !device(two, 4));
        cluster.set_scenario(one, &half).unwrap();
        assert!(device(one, 3) && !device(one, 7) && !device(one, 4));
        assert_eq!(gres(&cluster, one).len(), 4);
        cluster
            .write_etc("gres.conf", "Name=gpu Type=h100 File=/dev/nvidia[0-1]")
            .unwrap();
        let found = gres(&cluster, one);
        assert!(
            found
                .iter()
                .any(|line| line.contains("File=/dev/nvidia[0-1] ")),
            "{found:?}"
        );
        assert!(cluster.set_scenario(cluster.controller(), &half).is_err());
        cluster.stop().unwrap();
    }
}

#[test]
fn a_node_that_loses_a_gpu_is_drained() {
    for release in with_stock_plugin() {
        let cluster = Cluster::builder(release)
            .board("8xh100-sxm5")
            .plugins(Plugins::Stock)
            .gres_conf("AutoDetect=nvml")
            .node_gres("gpu:8")
            // That is what the test makes happen.
            .allow_log(
                "gres/gpu count reported lower|Setting node .* state to (DRAIN|INVAL)|invalid gres|GRES\\[gpu\\] Type",
            )
            .allow_log("drain_nodes: node|config-only GPU|_slurm_rpc_node_registration")
            .start()
            .unwrap();
        let node = cluster.node(1);
        let mut seven = Scenario::board("8xh100-sxm5");
        seven.gpus = Some(7);
        cluster.set_scenario(node, &seven).unwrap();
        cluster.restart_slurmd(node).unwrap();
        cluster
            .wait_until("a drained node", PATIENCE, || {
                let shown = cluster
                    .run("scontrol", ["show", "node", node])
                    .map_err(|e| e.to_string())?;
                let state = shown.stdout.lines().find(|line| line.contains("State="));
                let state = state.unwrap_or_default().to_owned();
                if state.contains("INVAL") && state.contains("DRAIN") {
                    Ok(())
                } else {
                    Err(state)
                }
            })
            .unwrap();
        cluster.stop().unwrap();
    }
}
