//! Real frameworks for distributed training, started by `srun` alone: the environment that they read is the
//! plugin's.

use harness::{Cluster, Release};
use suites::training::{lines, python, site, srun};

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

/// What the tasks, or torchrun's workers, print: two of them on each of two nodes.
const EXPECTED: [&str; 4] = [
    "rank 0 of 4 local 0 sum 6",
    "rank 1 of 4 local 1 sum 6",
    "rank 2 of 4 local 0 sum 6",
    "rank 3 of 4 local 1 sum 6",
];

fn cluster(release: Release) -> Cluster {
    site(Cluster::builder(release).torch(), "").start().unwrap()
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
        assert_eq!(lines, EXPECTED);
        cluster.stop().unwrap();
    });
}

/// torchrun's own options, where those that the plugin gives it do not do. Debian 13 builds PyTorch 2.6 without
/// libuv, and whatever torchrun opens there is a `TCPStore` with libuv: in `static_tcp_rendezvous.py`, in
/// `c10d_rendezvous_backend.py` and, for the store that workers share, in `dynamic_rendezvous.py`. No option, no
/// variable changes these three (`USE_LIBUV` holds for the workers' own store alone). What is left is to meet over
/// a file, and to share no store.
fn rendezvous(release: Release) -> &'static str {
    match release {
        Release::Slurm22_05 => "",
        _ => {
            "--rdzv-backend=c10d --rdzv-conf=store_type=file --rdzv-endpoint=$HOME/meet.$PET_RDZV_ID"
        }
    }
}

/// torchrun takes numbers of nodes and workers, the job's name and, on Debian 12, addresses from the
/// environment, and starts two workers on each node itself. That of Debian 12 knows no default of its
/// redirections with Python 3.11.
#[test]
fn torchrun_with_a_task_per_node() {
    suites::on_each_release(|release| {
        let cluster = cluster(release);
        let script = format!(
            "printf %s \"$DDP\" >/tmp/ddp.py && \
             exec python3 -m torch.distributed.run --redirects=1 --tee=1 {} /tmp/ddp.py",
            rendezvous(release)
        );
        let options = [
            "-N2",
            "--ntasks-per-node=1",
            "--gpus-per-node=2",
            "--dist-env=torchrun",
        ];
        let torchrun = srun(&cluster, &options)
            .args(["sh", "-c", &script])
            .env("DDP", DDP)
            .env("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1");
        // Each line has its worker before it.
        let mut found: Vec<String> = lines(&torchrun)
            .iter()
            .filter_map(|line| line.find("rank ").map(|at| line[at..].to_owned()))
            .collect();
        found.sort();
        assert_eq!(found, EXPECTED);
        cluster.stop().unwrap();
    });
}
