//! `spank_sgpu_env` and `spank_sgpu_bind` behind a container plugin: what they know of the node does not go with
//! the node's files.

use harness::{Builder, Cluster, Release};
use suites::sealed::Sealed;
use suites::{gpus, on_each_spank_release};

const OURS: &str = "\
required /opt/sgpu/plugins/spank_sgpu_env.so config=/opt/sgpu/site.toml
required /opt/sgpu/plugins/spank_sgpu_bind.so config=/opt/sgpu/site.toml
";

/// The container sees neither this file nor the second topology.
const SITE: &str = r#"
[env]
profile = "torch"
set = { SITE = "gold", NCCL_SOCKET_IFNAME = "=lo", NCCL_TOPO_FILE = "/etc/hostname", NCCL_GRAPH_FILE = "/opt/sgpu/site.toml" }
[bind]
mode = "closest"
memory = "off"
"#;

/// What a task has of ours, and where it runs, in one line that has no number of a job in it; and whether it
/// sees what the node has in `/opt`.
const TELL: &str = r#"
import os
names = ["SGPU_BIND", "MASTER_ADDR", "RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "SITE", "NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE"]
values = [name + "=" + os.environ.get(name, "") for name in names]
print(os.environ["SLURM_PROCID"], *values, sorted(os.sched_getaffinity(0)), sep="|")
print("graph", os.environ.get("NCCL_GRAPH_FILE"), os.path.exists("/opt/sgpu"))
"#;

fn node(release: Release) -> Builder {
    gpus::of_the_board(Cluster::builder(release).board("8xh100-sxm5"), release, 8)
        .etc_slurm("plugstack.conf", OURS)
}

/// The tasks' lines, and those of their topology files, sorted; and what else the step said.
fn step(cluster: &Cluster, words: &[&str]) -> (Vec<String>, String) {
    let said = cluster
        .command("srun")
        .args(words)
        .args(["python3", "-c", TELL])
        .run()
        .unwrap()
        .ok()
        .unwrap();
    let mut lines: Vec<String> = said.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    (lines, said.stderr)
}

/// Tasks in containers with less and less of the node get what tasks outside get: ranks and the site's file, the
/// GPUs that are theirs alone, CPUs near them.
#[test]
fn a_task_in_a_container_gets_what_one_outside_gets() {
    on_each_spank_release(|release| {
        let cluster = node(release).start().unwrap();
        std::fs::write(cluster.opt().join("site.toml"), SITE).unwrap();
        // The second task's GPU is known by its device file alone.
        let words = ["-n2", "--gpus-per-task=1", "--gres-flags=disable-binding"];
        let (outside, _) = step(&cluster, &words);
        assert_eq!(outside.len(), 4, "{outside:?}");
        for task in 0..2 {
            let line = &outside[task];
            let expected = format!("{task}|SGPU_BIND=closest gpus={task} cpus=");
            assert!(line.starts_with(&expected), "{line}");
            assert!(
                line.contains(&format!("|RANK={task}|WORLD_SIZE=2|")),
                "{line}"
            );
            assert!(!line.contains("OMP_NUM_THREADS=|"), "{line}");
            let sites = "|SITE=gold|NCCL_SOCKET_IFNAME==lo|NCCL_TOPO_FILE=/etc/hostname|";
            assert!(line.contains(sites), "{line}");
            assert_eq!(outside[2 + task], "graph /opt/sgpu/site.toml True");
        }
        for folders in [
            &["usr", "etc", "home", "proc", "sys", "dev"][..],
            &["usr", "etc", "home", "proc"],
            &["usr", "etc", "home"],
        ] {
            let sealed = Sealed::new(&cluster, release, OURS, folders);
            let (inside, told) = step(&cluster, &words);
            assert_eq!(inside[..2], outside[..2], "{folders:?}");
            // A file that the task would not find is not named to it.
            assert_eq!(inside[2..], ["graph None False"; 2], "{folders:?}");
            let notice = "NCCL_GRAPH_FILE=/opt/sgpu/site.toml";
            assert_eq!(told.matches(notice).count(), 1, "{told}");
            sealed.open();
        }
        cluster.stop().unwrap();
    });
}
