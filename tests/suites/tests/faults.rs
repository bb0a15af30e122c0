//! Sick GPUs, a sick NVML and odd machines: slurmd starts and registers, its log names the trouble, and
//! jobs that fit launch and end.
//!
//! A node that lacks a configured GPU is INVAL: Slurm's rule. So where a GPU is out, the node is
//! configured with what is left of it, and the job must run; that a full configuration is INVAL then is
//! one test of its own.

use std::time::{Duration, Instant};

use fake_nvml::Scenario;
use fake_nvml::scenario::Fault;
use fake_nvml::status::Status;
use harness::{Builder, Cluster, Plugins, Release};
use suites::{jobs, may_lack_a_gpu, on_each_release, published_map};

fn eight() -> Scenario {
    Scenario::board("8xh100-sxm5")
}

fn with(scenario: &Scenario, release: Release, gpus: usize) -> Builder {
    Cluster::builder(release)
        .scenario(scenario.clone())
        .plugins(Plugins::Ours)
        .gres_conf("AutoDetect=nvml")
        .node_gres(&format!("gpu:{gpus}"))
        // What a GPU-less or sick node rightly logs.
        .allow_log("error: gpu/nvml: ")
}

fn log(cluster: &Cluster) -> String {
    cluster.slurmd_log(&cluster.nodes()[0])
}

/// A job on `gpus` GPUs launches and ends, and sees as many.
fn runs(cluster: &Cluster, gpus: usize) {
    let seen = jobs::srun(
        cluster,
        &[
            &format!("--gres=gpu:{gpus}"),
            "sh",
            "-c",
            "echo $CUDA_VISIBLE_DEVICES",
        ],
    );
    assert_eq!(seen.trim().split(',').count(), gpus, "{seen}");
}

#[test]
fn a_lost_gpu_hides_no_other() {
    on_each_release(|release| {
        let mut scenario = eight();
        scenario.device_mut(3).lost = Some(true);
        let cluster = with(&scenario, release, 7).start().unwrap();
        runs(&cluster, 7);
        let log = log(&cluster);
        assert!(
            log.contains("GPU 3") && log.to_lowercase().contains("lost"),
            "{log}"
        );
        assert_eq!(
            published_map(&cluster).get(3).unwrap().minor,
            Some(4),
            "index 3 is the next GPU"
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn a_missing_gpu_makes_the_node_invalid_by_slurms_rule() {
    on_each_release(|release| {
        let mut scenario = eight();
        let cluster = may_lack_a_gpu(with(&scenario, release, 8)).start().unwrap();
        let node = cluster.nodes()[0].clone();
        scenario.device_mut(3).lost = Some(true);
        cluster.set_scenario(&node, &scenario).unwrap();
        cluster.restart_slurmd(&node).unwrap();
        cluster
            .wait_until("the node INVAL", Duration::from_secs(30), || {
                let said = cluster
                    .run("scontrol", ["show", "node", &node])
                    .map_err(|error| error.to_string())?
                    .stdout;
                if said.contains("INVAL") && said.contains("gres/gpu count reported lower") {
                    Ok(())
                } else {
                    Err(said)
                }
            })
            .unwrap();
        cluster.stop().unwrap();
    });
}

#[test]
fn without_nvml_a_node_without_gpus_works() {
    on_each_release(|release| {
        let cluster = Cluster::builder(release)
            .plugins(Plugins::Ours)
            .gres_conf("AutoDetect=nvml")
            .slurm_conf_extra("GresTypes=gpu")
            .start()
            .unwrap();
        assert_eq!(jobs::srun(&cluster, &["echo", "ran"]).trim(), "ran");
        cluster.stop().unwrap();
    });
}

#[test]
fn nvml_that_does_not_initialise_is_named() {
    on_each_release(|release| {
        let mut scenario = eight();
        scenario.init_error = Some(Status::LIB_RM_VERSION_MISMATCH);
        let cluster = Cluster::builder(release)
            .scenario(scenario)
            .plugins(Plugins::Ours)
            .gres_conf("AutoDetect=nvml")
            .slurm_conf_extra("GresTypes=gpu")
            .allow_log("error: gpu/nvml: ")
            .start()
            .unwrap();
        assert_eq!(jobs::srun(&cluster, &["echo", "ran"]).trim(), "ran");
        let log = log(&cluster);
        assert!(
            log.contains("nvmlInit") && log.contains("no GPU is offered"),
            "{log}"
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn a_hang_in_discovery_costs_one_gpu_and_ten_seconds() {
    on_each_release(|release| {
        let mut scenario = eight();
        scenario.fault.push(Fault {
            device: Some(5),
            comm: Some("slurmd".into()),
            ..Fault::hang("nvmlDeviceGetUUID")
        });
        let begun = Instant::now();
        let cluster = with(&scenario, release, 7).start().unwrap();
        assert!(
            begun.elapsed() > Duration::from_secs(9),
            "the fault did not strike"
        );
        runs(&cluster, 7);
        let log = log(&cluster);
        assert!(
            log.contains("GPU 5") && log.contains("nvmlDeviceGetUUID"),
            "{log}"
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn a_hang_in_usage_holds_no_step_up_24_11() {
    if !suites::is_under_test(Release::Slurm24_11) {
        return;
    }
    let mut scenario = eight();
    scenario.fault.push(Fault {
        comm: Some("slurmstepd".into()),
        ..Fault::hang("nvmlDeviceGetComputeRunningProcesses")
    });
    let cluster = with(&scenario, Release::Slurm24_11, 8)
        .job_acct("jobacct_gather/linux", 1)
        .accounting(true)
        .slurm_conf_extra("AccountingStorageTRES=gres/gpu,gres/gpumem,gres/gpuutil")
        .start()
        .unwrap();
    assert_eq!(jobs::srun(&cluster, &["--gres=gpu:2", "sleep", "4"]), "");
    let log = log(&cluster);
    assert!(
        log.contains("nvmlDeviceGetComputeRunningProcesses"),
        "{log}"
    );
    cluster.stop().unwrap();
}

fn hang_in_energy(release: Release, energy: &str) {
    let mut scenario = eight();
    scenario.fault.push(Fault {
        comm: Some("slurmd".into()),
        ..Fault::hang("nvmlDeviceGetTotalEnergyConsumption")
    });
    let cluster = with(&scenario, release, 8)
        .job_acct("jobacct_gather/linux", 1)
        .accounting(true)
        .slurm_conf_extra(&format!("AcctGatherEnergyType=acct_gather_energy/{energy}"))
        .slurm_conf_extra("AcctGatherNodeFreq=1")
        .allow_log("error: acct_gather_energy/sgpu: GPU energy counters are not read")
        .start()
        .unwrap();
    assert_eq!(jobs::srun(&cluster, &["--gres=gpu:2", "sleep", "3"]), "");
    if energy == "sgpu" {
        let log = log(&cluster);
        assert!(log.contains("nvmlDeviceGetTotalEnergyConsumption"), "{log}");
    }
    cluster.stop().unwrap();
}

#[test]
fn a_hang_in_energy_holds_no_node_up() {
    on_each_release(|release| hang_in_energy(release, "sgpu"));
}

#[test]
fn a_hang_in_energy_holds_slurms_own_energy_plugin_not_up_24_11() {
    if !suites::is_under_test(Release::Slurm24_11) {
        return;
    }
    hang_in_energy(Release::Slurm24_11, "gpu");
}

#[test]
fn a_board_with_mig_on_and_no_instance_is_left_out() {
    on_each_release(|release| {
        let mut scenario = eight();
        scenario.device_mut(0).mig_enabled = Some(true);
        let cluster = with(&scenario, release, 7).start().unwrap();
        runs(&cluster, 7);
        let log = log(&cluster);
        assert!(
            log.contains("GPU 0") && log.contains("no MIG device"),
            "{log}"
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn sixteen_gpus() {
    on_each_release(|release| {
        let cluster = with(&Scenario::board("16xv100-sxm3"), release, 16)
            .start()
            .unwrap();
        runs(&cluster, 16);
        assert_eq!(published_map(&cluster).entries.len(), 16);
        cluster.stop().unwrap();
    });
}

#[test]
fn minors_out_of_order() {
    on_each_release(|release| {
        let mut scenario = eight();
        for (position, minor) in [
            (0, 4),
            (1, 5),
            (2, 6),
            (3, 7),
            (4, 0),
            (5, 1),
            (6, 2),
            (7, 3),
        ] {
            scenario.device_mut(position).minor = Some(minor);
        }
        let addresses: Vec<String> = scenario
            .resolve()
            .unwrap()
            .gpus
            .iter()
            .map(|gpu| gpu.pci.to_string())
            .collect();
        let cluster = with(&scenario, release, 8).start().unwrap();
        runs(&cluster, 8);
        for entry in published_map(&cluster).entries {
            let minor = entry.minor.unwrap();
            assert_eq!(entry.files, [format!("/dev/nvidia{minor}")]);
            // Minor 4 is the board's first GPU, minor 0 its fifth.
            let position = usize::try_from((minor + 4) % 8).unwrap();
            let expected: gpu::PciAddress = addresses[position].parse().unwrap();
            assert_eq!(entry.pci, Some(expected), "minor {minor}");
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn four_of_eight_configured() {
    on_each_release(|release| {
        let cluster = with(&eight(), release, 4)
            .gres_conf("AutoDetect=nvml\nName=gpu File=/dev/nvidia[2-5]")
            .start()
            .unwrap();
        runs(&cluster, 4);
        let map = published_map(&cluster);
        let minors: Vec<_> = map
            .entries
            .iter()
            .map(|entry| (entry.index, entry.minor))
            .collect();
        assert_eq!(
            minors,
            [(0, Some(2)), (1, Some(3)), (2, Some(4)), (3, Some(5))]
        );
        cluster.stop().unwrap();
    });
}

/// Each gres counts its devices from 0.
#[test]
fn the_map_is_of_gpus_and_no_other_gres() {
    on_each_release(|release| {
        let cluster = with(&eight(), release, 4)
            .node_gres("debug:4,gpu:4")
            .slurm_conf_extra("GresTypes=debug,gpu")
            .gres_conf(
                "AutoDetect=nvml\nName=debug File=/dev/nvidia[4-7]\nName=gpu File=/dev/nvidia[0-3]",
            )
            .start()
            .unwrap();
        runs(&cluster, 4);
        let minors: Vec<_> = published_map(&cluster)
            .entries
            .iter()
            .map(|entry| (entry.index, entry.minor))
            .collect();
        assert_eq!(
            minors,
            [(0, Some(0)), (1, Some(1)), (2, Some(2)), (3, Some(3))]
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn a_slurmd_that_goes_to_the_background_publishes_the_map_too() {
    on_each_release(|release| {
        let cluster = with(&eight(), release, 8)
            .slurmd_forks(true)
            .start()
            .unwrap();
        assert_eq!(published_map(&cluster).entries.len(), 8);
        runs(&cluster, 8);
        cluster.stop().unwrap();
    });
}

/// The map of a node as it is now.
fn map_file(cluster: &Cluster) -> std::path::PathBuf {
    cluster
        .path(&cluster.nodes()[0], gpu::index_map::DEFAULT_PATH)
        .unwrap()
}

/// 22.05 lists its GPUs before it goes to the background, and once more at each reconfiguration.
#[test]
fn a_reconfiguration_publishes_the_map_anew() {
    on_each_release(|release| {
        for forks in [false, true] {
            let cluster = with(&eight(), release, 8)
                .slurmd_forks(forks)
                .start()
                .unwrap();
            assert_eq!(published_map(&cluster).entries.len(), 8);
            std::fs::remove_file(map_file(&cluster)).unwrap();
            cluster.reconfigure().unwrap();
            assert_eq!(published_map(&cluster).entries.len(), 8);
            runs(&cluster, 8);
            // An internal fault at slurmd's end would be an error in its log, and fail here.
            cluster.stop().unwrap();
        }
    });
}

#[test]
fn a_map_that_may_be_wrong_is_withdrawn() {
    on_each_release(|release| {
        let mut scenario = eight();
        let cluster = may_lack_a_gpu(with(&scenario, release, 8)).start().unwrap();
        assert_eq!(published_map(&cluster).entries.len(), 8);
        let node = cluster.nodes()[0].clone();
        scenario.init_error = Some(Status::DRIVER_NOT_LOADED);
        cluster.set_scenario(&node, &scenario).unwrap();
        cluster.restart_slurmd(&node).unwrap();
        cluster
            .wait_until("no map", Duration::from_secs(10), || {
                if map_file(&cluster).exists() {
                    Err("the map of before".to_owned())
                } else {
                    Ok(())
                }
            })
            .unwrap();
        cluster.stop().unwrap();
    });
}

#[test]
fn a_hang_in_one_gpus_clocks_keeps_no_other_gpu_from_its_own() {
    on_each_release(|release| {
        let mut scenario = eight();
        for call in [
            "nvmlDeviceSetApplicationsClocks",
            "nvmlDeviceResetApplicationsClocks",
        ] {
            scenario.fault.push(Fault {
                device: Some(0),
                ..Fault::hang(call)
            });
        }
        let cluster = with(&scenario, release, 8).start().unwrap();
        let node = cluster.nodes()[0].clone();
        assert_eq!(published_map(&cluster).entries.len(), 8);
        let state = || {
            let path = cluster
                .path(&node, "/opt/fake-nvml/scenario.toml.state")
                .unwrap();
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let said = cluster
            .command("srun")
            .args(["--gres=gpu:3", "--gpu-freq=low", "sh", "-c"])
            .args(["cat /opt/fake-nvml/scenario.toml.state"])
            .timeout(Duration::from_secs(90))
            .run()
            .unwrap()
            .ok()
            .unwrap();
        assert!(said.stderr.contains("Set 2/3 total GPUs"), "{said}");
        let changed = said.stdout.matches("graphics").count();
        assert_eq!(changed, 2, "{said}");
        assert_eq!(
            state().matches("graphics").count(),
            0,
            "the others go back: {}",
            state()
        );
        let log = log(&cluster);
        assert!(
            log.contains("nvmlDeviceSetApplicationsClocks has not returned"),
            "{log}"
        );
        cluster.stop().unwrap();
    });
}
