//! Traces replayed on a real slurmctld with a fast clock: the replays behind `cargo xtask bench policy` say what
//! they should where the answer is known.

use std::time::{Duration, Instant};

use harness::{Cluster, Release};
use replay::metrics::{Figures, figures};
use replay::policy::{Policy, stock};
use replay::runs::Went;
use replay::site;
use replay::workload::{Class, Job, Mix, Shape, jobs};
use suites::on_each_release;

/// The figures' signs are looked at, no sizes: a clock as fast as this is too fast for those.
const SPEED: u32 = 200;

fn policy(name: &str) -> Policy {
    let all = stock();
    all.into_iter().find(|policy| policy.name == name).unwrap()
}

fn replay(release: Release, name: &str, shape: &Shape, jobs: &[Job]) -> (Vec<Went>, Figures) {
    let replayed = site::replay(release, &policy(name), shape, jobs, SPEED, &|_| {}).unwrap();
    let figures = figures(jobs, &replayed.went, shape);
    assert!(
        figures.allocation > 0.2 && figures.allocation <= 1.0,
        "{name} on {release}: {figures:?}"
    );
    (replayed.went, figures)
}

#[test]
fn a_cluster_has_a_clock_of_its_own() {
    on_each_release(|release| {
        let cluster = Cluster::builder(release)
            .clock("2030-01-01 00:00:00", 100)
            .start()
            .unwrap();
        let begun = Instant::now();
        let id = cluster.sbatch("sleep 600").unwrap();
        cluster
            .wait_job_state(id, "COMPLETED", Duration::from_secs(60))
            .unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60));
        let start = cluster.job_field(id, "StartTime").unwrap();
        assert!(start.starts_with("2030-01-01T"), "{start}");
        let ran = cluster.job_field(id, "RunTime").unwrap();
        assert!(ran.starts_with("00:10:"), "{ran}");
        cluster.stop().unwrap();
    });
}

/// A job of all GPUs waits for one of a single GPU; a short one behind it has room, and fits into the time.
#[test]
fn backfill_fills_what_fifo_leaves_empty() {
    let job = |submit_s, run_s, gpus| Job {
        submit_s,
        run_s,
        limit_minutes: run_s / 60 + 2,
        gpus,
        account: "a".into(),
        class: Class::Normal,
        checkpoint_s: None,
    };
    let shape = Shape {
        nodes: 2,
        gpus_per_node: 8,
        jobs: 3,
        load: 1.0,
        mix: Mix::Trace,
        longest_s: 3600,
        seed: 0,
    };
    let jobs = [job(0, 3000, 8), job(60, 600, 16), job(120, 900, 8)];
    on_each_release(|release| {
        let start = |policy: &str| -> Vec<u64> {
            let (went, _) = replay(release, policy, &shape, &jobs);
            went.iter().map(|went| went.runs[0].start_s).collect()
        };
        let fifo = start("fifo");
        assert!(fifo[2] > fifo[1], "{release}: {fifo:?}");
        let backfill = start("backfill");
        assert!(backfill[2] < 1000, "{release}: {backfill:?}");
        assert!(backfill[1] < fifo[2], "{release}: {backfill:?}");
    });
}

#[test]
fn preemption_serves_the_urgent_and_loses_work() {
    if !suites::is_under_test(Release::Slurm24_11) {
        return;
    }
    let shape = Shape {
        nodes: 4,
        gpus_per_node: 8,
        jobs: 36,
        load: 1.0,
        mix: Mix::Bursts,
        longest_s: 2400,
        seed: 3,
    };
    let jobs = jobs(&[], &shape).unwrap();
    let (_, without) = replay(Release::Slurm24_11, "fair", &shape, &jobs);
    let (went, with) = replay(Release::Slurm24_11, "preempt", &shape, &jobs);
    assert_eq!((without.preemptions, without.lost_gpu_hours), (0, 0.0));
    assert!(
        with.preemptions > 0 && with.lost_gpu_hours > 0.0,
        "{with:?}"
    );
    assert!(
        with.wait_by_class[2].mean < without.wait_by_class[2].mean,
        "{with:?} {without:?}"
    );
    // A checkpoint is gone on from: no run after one does all the work again.
    for (job, went) in jobs.iter().zip(&went) {
        assert!(went.runs.len() == 1 || job.class == Class::Low, "{job:?}");
        let ran: u64 = went.runs.iter().map(|run| run.end_s - run.start_s).sum();
        assert!(ran + 5 >= job.run_s, "{job:?} {went:?}");
        let kept = went
            .checkpoints_s
            .first()
            .is_some_and(|at| *at < went.runs[0].end_s);
        if went.runs.len() == 2 && kept {
            let last = went.runs[1].end_s - went.runs[1].start_s;
            assert!(last < job.run_s, "{job:?} {went:?}");
        }
    }
}
