//! Training frameworks from PyPI, started by `srun` alone on Debian 13: the environment that they read is the
//! plugin's. An extra, since it takes PyPI's packages: `cargo xtask test frameworks_pypi`.

use std::time::Duration;

use harness::{Cluster, Release, User};
use suites::training::{lines, python, site};

const ACCELERATE: &str = include_str!("../python/accelerate_step.py");
const LIGHTNING: &str = include_str!("../python/lightning_step.py");
const JAX: &str = include_str!("../python/jax_step.py");
const SUBMITIT: &str = include_str!("../python/submitit_job.py");

/// Two tasks on each of two nodes, which see the same two GPUs.
const STEP: [&str; 3] = ["-N2", "--ntasks-per-node=2", "--gpus-per-node=2"];

/// A cluster with the frameworks; none where its release is not under test.
fn cluster(arguments: &str) -> Option<Cluster> {
    let release = Release::Slurm24_11;
    suites::is_under_test(release).then(|| {
        site(Cluster::builder(release).frameworks(), arguments)
            .accounting(true)
            .start()
            .unwrap()
    })
}

fn with(option: &str) -> Vec<&str> {
    [&STEP[..], &[option]].concat()
}

#[test]
#[ignore = "takes packages from PyPI; `cargo xtask test frameworks_pypi` runs it"]
fn accelerate_takes_a_step_24_11() {
    let Some(cluster) = cluster("") else { return };
    let found = python(&cluster, &with("--dist-env=torch"), ACCELERATE);
    // The mean of 1 to 4, times a rate of 1, off a weight of 0.
    let expected = [0, 1, 2, 3].map(|rank| {
        format!(
            "process {rank} of 4 local {} DistributedType.MULTI_CPU gathered [0, 1, 2, 3] weight -2.5",
            rank % 2
        )
    });
    assert_eq!(found, expected);
    cluster.stop().unwrap();
}

#[test]
#[ignore = "takes packages from PyPI; `cargo xtask test frameworks_pypi` runs it"]
fn lightning_takes_a_step_24_11() {
    let Some(cluster) = cluster("") else { return };
    let found = python(&cluster, &with("--dist-env=torch"), LIGHTNING);
    // Job 1, step 0.
    let at = format!("{}:{}", cluster.node(1), 61_000 + 31);
    let expected = [0, 1, 2, 3].map(|rank| {
        format!(
            "SLURMEnvironment rank {rank} of 4 local {} node {} at {at} weight -2.5",
            rank % 2,
            rank / 2
        )
    });
    assert_eq!(found, expected);
    cluster.stop().unwrap();
}

/// Each process takes a GPU of its own: one of those that the node's tasks all see, or the one that it sees.
#[test]
#[ignore = "takes packages from PyPI; `cargo xtask test frameworks_pypi` runs it"]
fn jax_sums_over_two_nodes_24_11() {
    let Some(cluster) = cluster("") else { return };
    let node = cluster.node(1);
    let bound = ["-N2", "--ntasks-per-node=2", "--gpus-per-task=1"];
    for (job, options, gpus) in [(1, STEP, ["0", "1"]), (2, bound, ["0", "0"])] {
        let mut found = python(&cluster, &[&options[..], &["--dist-env=jax"]].concat(), JAX);
        found.retain(|line| !line.starts_with("[Gloo]"));
        let expected = [0, 1, 2, 3].map(|rank| {
            format!(
                "process {rank} of 4 gpus {} gathered [0, 1, 2, 3] sum 10.0 at {node}:{}",
                gpus[rank % 2],
                61_000 + 31 * job
            )
        });
        assert_eq!(found, expected);
    }
    cluster.stop().unwrap();
}

/// submitit makes the environment itself, and refuses to where somebody else has.
#[test]
#[ignore = "takes packages from PyPI; `cargo xtask test frameworks_pypi` runs it"]
fn submitit_is_left_alone_24_11() {
    let Some(cluster) = cluster("profile=auto") else {
        return;
    };
    let profile = ["sh", "-c", "echo profile $SGPU_DIST_PROFILE"];
    let other = suites::training::srun(&cluster, &STEP).args(profile);
    assert_eq!(lines(&other), ["profile torch"; 4]);

    let job = cluster
        .command("python3")
        .args(["-c", SUBMITIT])
        .user(User::Alice)
        .timeout(Duration::from_secs(180));
    let expected =
        [0, 1, 2, 3].map(|rank| format!("rank {rank} of 4 local {} sum 6 profile None", rank % 2));
    assert_eq!(lines(&job), expected);
    // submitit has its answers a little before the job ends.
    cluster
        .wait_job_state(2, "COMPLETED", Duration::from_secs(60))
        .unwrap();
    cluster.stop().unwrap();
}
