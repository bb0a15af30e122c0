//! Real frameworks for distributed training, started by `srun` alone: the environment that they read is the
//! plugin's.

use std::time::Duration;

use fake_nvml::Scenario;
use harness::{Cluster, Plugins, Release};

/// Each rank adds its number; the sum of 0 to 3 is 6 on every rank.
const DDP: &str = "\
import os, torch, torch.distributed as dist
dist.init_process_group('gloo')
rank = torch.tensor([float(dist.get_rank())])
dist.all_reduce(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
model(torch.ones(3, 4)).sum().backward()
print('rank', dist.get_rank(), 'of', dist.get_world_size(), 'local', os.environ['LOCAL_RANK'], 'sum', int(rank))
";

/// What a site would set: the machines of a test cluster share one network interface, and Debian 13 builds
/// PyTorch without libuv.
const SITE: &str = "\
[env]
set = { GLOO_SOCKET_IFNAME = \"lo\", USE_LIBUV = \"0\" }
";

fn cluster(release: Release) -> Cluster {
    Cluster::builder(release)
        .torch()
        .nodes(2)
        .scenario(Scenario::board("4xt4"))
        .plugins(Plugins::Ours)
        .gres_conf("AutoDetect=nvml")
        .node_gres("gpu:4")
        .etc_slurm(
            "plugstack.conf",
            "optional /opt/sgpu/plugins/spank_sgpu_env.so\n",
        )
        .etc_slurm("sgpu.toml", SITE)
        .start()
        .unwrap()
}

fn python(cluster: &Cluster, options: &[&str], program: &str) -> Vec<String> {
    let said = cluster
        .command("srun")
        .args(options)
        .args(["python3", "-c", program])
        .timeout(Duration::from_secs(180))
        .run()
        .unwrap()
        .ok()
        .unwrap();
    let mut lines: Vec<String> = said.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn ddp_over_two_nodes() {
    suites::on_each_release(|release| {
        let cluster = cluster(release);
        let lines = python(
            &cluster,
            &[
                "-N2",
                "--ntasks-per-node=2",
                "--gpus-per-node=2",
                "--dist-env=torch",
            ],
            DDP,
        );
        assert_eq!(
            lines,
            [
                "rank 0 of 4 local 0 sum 6",
                "rank 1 of 4 local 1 sum 6",
                "rank 2 of 4 local 0 sum 6",
                "rank 3 of 4 local 1 sum 6",
            ]
        );
        cluster.stop().unwrap();
    });
}

/// Debian 13 builds PyTorch without libuv, which its torchrun insists on.
#[test]
fn torchrun_with_a_task_per_node_22_05() {
    if !suites::is_under_test(Release::Slurm22_05) {
        return;
    }
    let cluster = cluster(Release::Slurm22_05);
    // torchrun takes ranks, addresses and counts from the environment, and starts two workers on each node
    // itself. That of Debian 12 knows no default of its redirections with Python 3.11.
    let script = "printf %s \"$DDP\" >/tmp/ddp.py && \
                  exec python3 -m torch.distributed.run --redirects=1 --tee=1 /tmp/ddp.py";
    let said = cluster
        .command("srun")
        .args([
            "-N2",
            "--ntasks-per-node=1",
            "--gpus-per-node=2",
            "--dist-env=torchrun",
        ])
        .args(["sh", "-c", script])
        .env("DDP", DDP)
        .timeout(Duration::from_secs(180))
        .run()
        .unwrap()
        .ok()
        .unwrap();
    let lines: Vec<&str> = said
        .stdout
        .lines()
        .filter_map(|line| line.find("rank ").map(|at| &line[at..]))
        .collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert!(
        lines.iter().all(|line| line.ends_with("sum 6")),
        "{lines:?}"
    );
    cluster.stop().unwrap();
}
