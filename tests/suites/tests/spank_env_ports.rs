//! `spank_sgpu_env` on real daemons: where rank 0 listens.

use harness::{Builder, Cluster, Plugins, Release, User};
use suites::on_each_spank_release;

fn two_nodes(release: Release) -> Builder {
    Cluster::builder(release)
        .nodes(2)
        .plugins(Plugins::Ours)
        .etc_slurm(
            "plugstack.conf",
            "required /opt/sgpu/plugins/spank_sgpu_env.so profile=auto\n",
        )
}

/// What the tasks of a step say of its ports.
#[derive(Debug)]
struct Step {
    job: u64,
    step: u64,
    port: u64,
    reserved: String,
}

/// A step over both nodes, whose tasks must all say the same.
fn step(cluster: &Cluster, words: &[&str]) -> Step {
    let tell = "echo $SLURM_JOB_ID,$SLURM_STEP_ID,$MASTER_PORT,$SLURM_STEP_RESV_PORTS";
    let said = cluster
        .command("srun")
        .args(["-N2", "--ntasks-per-node=2"])
        .args(words)
        .args(["sh", "-c", tell])
        .user(User::Alice)
        .run()
        .unwrap()
        .ok()
        .unwrap();
    let mut lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    lines.dedup();
    assert_eq!(lines.len(), 1, "all tasks on all nodes: {said}");
    let fields: Vec<&str> = lines[0].splitn(4, ',').collect();
    let number = |at: usize| fields[at].parse().unwrap();
    Step {
        job: number(0),
        step: number(1),
        port: number(2),
        reserved: fields[3].to_owned(),
    }
}

/// The rule of dist-env.md, with as many ports as there are from the first one up.
fn by_rule(step: &Step, first: u64) -> u64 {
    first + (31 * step.job + 977 * step.step) % (65_536 - first)
}

#[test]
fn a_port_that_slurm_has_reserved_is_taken() {
    on_each_spank_release(|release| {
        let cluster = two_nodes(release)
            .slurm_conf_extra("MpiParams=ports=12001-12099")
            .start()
            .unwrap();
        let found = step(&cluster, &["--resv-ports=8"]);
        let (first, last) = found.reserved.split_once('-').expect("a range");
        let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
        assert_eq!(last - first, 7, "{found:?}");
        assert!(first >= 12_001 && last <= 12_099, "{found:?}");
        assert_eq!(found.port, first);
        // Who names one has it.
        let found = step(&cluster, &["--resv-ports=8", "--dist-port=4567"]);
        assert_eq!(found.port, 4567, "{found:?}");
        // With MpiParams Slurm reserves some for who does not ask, too.
        let found = step(&cluster, &[]);
        let first = found.reserved.split('-').next().unwrap();
        assert_eq!(found.port.to_string(), first, "{found:?}");
        cluster.stop().unwrap();
    });
}

/// On all nodes alike: the range ends where the kernel or srun begin.
#[test]
fn the_default_range_moves_off_the_kernels_ports_and_sruns() {
    on_each_spank_release(|release| {
        let cluster = two_nodes(release)
            .slurm_conf_extra("Include ports.conf")
            .etc_slurm("ports.conf", "SrunPortRange=61000-62999\n")
            .start()
            .unwrap();
        let found = step(&cluster, &[]);
        assert_eq!(found.port, by_rule(&found, 63_000), "{found:?}");
        // The cluster has a network of its own, and so its own settings of it.
        cluster
            .in_network(|| {
                std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "32768 63999").unwrap();
            })
            .unwrap();
        let found = step(&cluster, &[]);
        assert_eq!(found.port, by_rule(&found, 64_000), "{found:?}");
        // A range that the site names stays as it is.
        cluster
            .write_etc(
                "plugstack.conf",
                "required /opt/sgpu/plugins/spank_sgpu_env.so profile=auto port_range=61000-61009\n",
            )
            .unwrap();
        let found = step(&cluster, &[]);
        assert_eq!(found.port, 61_000 + (31 * found.job) % 10, "{found:?}");
        cluster.stop().unwrap();
    });
}
