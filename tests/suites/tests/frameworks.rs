//! Real frameworks for distributed training, started by `srun` alone: the environment that they read is the
//! plugin's.

use std::time::Duration;

use harness::{Cluster, Release, User};
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

#[test]
fn ddp_over_a_heterogeneous_step() {
    suites::on_each_release(|release| {
        let cluster = cluster(release);
        let part = ["-N1", "-n2", "--gpus-per-node=2"];
        let step = srun(&cluster, &part)
            .args(["--dist-env=torch", "python3", "-c", DDP, ":"])
            .args(part)
            .args(["python3", "-c", DDP]);
        assert_eq!(lines(&step), EXPECTED);
        cluster.stop().unwrap();
    });
}

/// Two nodes with a torchrun on each, which takes its numbers from the environment and starts two workers itself.
/// That of Debian 12 knows no default of its redirections with Python 3.11.
fn torchrun(cluster: &Cluster, command: &str) -> Vec<String> {
    let options = [
        "-N2",
        "--ntasks-per-node=1",
        "--gpus-per-node=2",
        "--dist-env=torchrun",
    ];
    let script =
        format!("printf %s \"$DDP\" >/tmp/ddp.py && {command} --redirects=1 --tee=1 /tmp/ddp.py");
    let step = srun(cluster, &options)
        .args(["sh", "-c", &script])
        .env("DDP", DDP)
        .env("MENDED", MENDED);
    // Each line has its worker before it.
    let mut found: Vec<String> = lines(&step)
        .iter()
        .filter_map(|line| line.find("rank ").map(|at| line[at..].to_owned()))
        .collect();
    found.sort();
    found
}

/// Debian 13 builds its PyTorch 2.6 without libuv, and a torchrun opens `TCPStore`s with libuv: by
/// `static_tcp_rendezvous.py`, by `c10d_rendezvous_backend.py` and, for the store that workers share, by
/// `dynamic_rendezvous.py`; workers join that one so, by `rendezvous.py`. No option and no variable changes these:
/// `USE_LIBUV` holds for a store of the workers' own alone. What is left there is to meet over a file, and to
/// share no store.
#[test]
fn torchrun_with_a_task_per_node() {
    suites::on_each_release(|release| {
        let cluster = cluster(release);
        let plain = "python3 -m torch.distributed.run";
        let command = match release {
            Release::Slurm22_05 => plain.to_owned(),
            _ => format!(
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 {plain} --rdzv-backend=c10d \
                 --rdzv-conf=store_type=file --rdzv-endpoint=$HOME/meet.$PET_RDZV_ID"
            ),
        };
        assert_eq!(torchrun(&cluster, &command), EXPECTED);
        cluster.stop().unwrap();
    });
}

/// Stores without libuv where nobody says otherwise.
const MENDED: &str = "\
from torch.distributed import TCPStore
made = TCPStore.__init__
TCPStore.__init__ = lambda self, *words, **named: made(self, *words, **{'use_libuv': False, **named})
";

/// The same at the plugin's address and port, with Debian 13's PyTorch mended.
#[test]
fn torchrun_at_the_address_24_11() {
    if !suites::is_under_test(Release::Slurm24_11) {
        return;
    }
    let cluster = cluster(Release::Slurm24_11);
    let command = "printf %s \"$MENDED\" >/tmp/sitecustomize.py && \
                   PYTHONPATH=/tmp python3 -m torch.distributed.run";
    assert_eq!(torchrun(&cluster, command), EXPECTED);
    cluster.stop().unwrap();
}

/// The text of a page's n-th block in a language.
fn block<'a>(page: &'a str, language: &str, n: usize) -> &'a str {
    let blocks = page.split(&format!("```{language}\n")).nth(n + 1);
    blocks.unwrap().split("```").next().unwrap()
}

/// Replaces what is there.
fn with(text: &str, changes: &[(&str, &str)]) -> String {
    changes
        .iter()
        .fold(text.to_owned(), |text, (before, after)| {
            assert!(text.contains(before), "{before} is not in {text}");
            text.replace(before, after)
        })
}

/// The job that checkpoint.md shows, on CPUs, for want of real GPUs: it is preempted, saves, is requeued, and goes
/// on where it was.
#[test]
fn the_complete_job_of_the_docs_24_11() {
    if !suites::is_under_test(Release::Slurm24_11) {
        return;
    }
    let plugstack: String = ["bind", "env", "ckpt"]
        .map(|plugin| format!("optional /opt/sgpu/plugins/spank_sgpu_{plugin}.so\n"))
        .concat();
    let cluster = site(Cluster::builder(Release::Slurm24_11).torch(), "")
        .etc_slurm("plugstack.conf", &plugstack)
        .accounting(true)
        .slurm_conf_extra(
            "PreemptType=preempt/qos\nPreemptMode=REQUEUE\nSchedulerParameters=bf_continue",
        )
        .start()
        .unwrap();
    for words in [
        "add qos low GraceTime=60 PreemptMode=requeue",
        "add qos high Preempt=low Priority=10",
        "modify user alice set qos+=low,high",
    ] {
        let words = std::iter::once("-i").chain(words.split(' '));
        cluster.run("sacctmgr", words).unwrap().ok().unwrap();
    }
    let page = include_str!("../../../docs/src/checkpoint.md");
    let job = with(
        block(page, "sh", 0),
        &[
            ("-node=8", "-node=2"),
            ("--time=04:00:00", "--time=00:30:00"),
        ],
    );
    let training = with(
        block(page, "python", 0),
        &[
            ("torch.cuda.set_device(gpu)\n", ""),
            ("1024", "64"),
            ("% 1000", "% 100"),
            ("\"nccl\"", "\"gloo\""),
            (".cuda(), device_ids=[gpu]", ""),
            (", device=\"cuda\"", ""),
            (
                "STEPS = 1_000_000",
                "STEPS = 1 if os.path.exists('enough') else 1_000_000_000",
            ),
        ],
    );
    let home = cluster
        .path(cluster.controller(), User::Alice.home())
        .unwrap();
    std::fs::write(home.join("train.py"), training).unwrap();
    let path = "--export=ALL,PATH=/opt/sgpu/plugins:/usr/bin:/bin";
    let low = cluster
        .sbatch_as(User::Alice, &["-qlow", path], &job)
        .unwrap();
    let deadline = Duration::from_secs(180);
    let saved = home.join("checkpoint.pt");
    cluster
        .wait_until("a first checkpoint", deadline, || match saved.exists() {
            true => Ok(()),
            false => Err(cluster.job_output(User::Alice, low).unwrap_or_default()),
        })
        .unwrap();
    let high = cluster
        .sbatch_as(User::Alice, &["-qhigh", "-N2", "--exclusive"], "true")
        .unwrap();
    cluster.wait_job_state(high, "COMPLETED", deadline).unwrap();
    let first = steps(&cluster);
    assert!(first >= 100, "{first}");
    let comment = cluster.job_field(low, "Comment").unwrap();
    assert!(comment.starts_with("sgpu:ckpt="), "{comment}");
    // The second run has enough, if it knows what the first has done. Slurm keeps a requeued job back for a while.
    std::fs::write(home.join("enough"), "").unwrap();
    let now = [format!("JobId={low}"), "StartTime=now".to_owned()];
    let now = std::iter::once("update").chain(now.iter().map(String::as_str));
    cluster.run("scontrol", now).unwrap().ok().unwrap();
    cluster.wait_job_state(low, "COMPLETED", deadline).unwrap();
    assert_eq!(cluster.job_field(low, "Restarts").unwrap(), "1");
    assert_eq!(steps(&cluster), first);
    cluster.stop().unwrap();
}

/// The number of steps in the checkpoint.
fn steps(cluster: &Cluster) -> u32 {
    let program = "import torch; print(torch.load('checkpoint.pt')['step'])";
    let said = cluster
        .command("python3")
        .args(["-c", program])
        .user(User::Alice)
        .dir(User::Alice.home())
        .run()
        .unwrap();
    said.ok().unwrap().stdout.trim().parse().unwrap()
}
