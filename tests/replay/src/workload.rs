//! What is replayed: jobs of a trace, with what the trace does not say made up from a seed.

use std::fmt;

use anyhow::{Result, ensure};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::trace::Traced;

/// Which jobs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// The trace's own, with more of several GPUs: 93 % of Philly's have one.
    Trace,
    /// The same, with a quarter of the GPU-hours in jobs of a quarter of the cluster or more.
    Large,
    /// Long trainings that can be preempted, and bursts of short urgent jobs.
    Bursts,
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trace => "trace",
            Self::Large => "large",
            Self::Bursts => "bursts",
        })
    }
}

/// A class of service, by Slurm's QOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Can be preempted.
    Low,
    /// Neither preempts nor is preempted.
    Normal,
    /// Preempts `Low`.
    High,
}

impl Class {
    /// The QOS's name.
    #[must_use]
    pub fn qos(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "usual",
            Self::High => "high",
        }
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// When it is submitted, in seconds since the start.
    pub submit_s: u64,
    /// How long it runs undisturbed.
    pub run_s: u64,
    /// Its time limit.
    pub limit_minutes: u64,
    /// Its GPUs; beyond one node's, whole nodes.
    pub gpus: u32,
    /// Who it is charged to.
    pub account: String,
    /// Its class.
    pub class: Class,
    /// How often it writes a checkpoint; `None`: never.
    pub checkpoint_s: Option<u64>,
}

/// What there is to know of a replay before it runs.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Nodes.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
    /// How many jobs.
    pub jobs: usize,
    /// GPU-seconds asked for, by those that there are.
    pub load: f64,
    /// Which.
    pub mix: Mix,
    /// The longest run; longer ones are cut.
    pub longest_s: u64,
    /// What is drawn, is drawn from this.
    pub seed: u64,
}

impl Shape {
    /// All GPUs.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.nodes * self.gpus_per_node
    }
}

/// Accounts, when the trace has none of its own.
const ACCOUNTS: u32 = 20;
/// Runs that are shorter say nothing at a clock that runs fast.
const SHORTEST_S: u64 = 120;

/// The jobs of a replay, by the time of their submission.
///
/// # Errors
/// The trace has too few jobs that fit.
pub fn jobs(trace: &[Traced], shape: &Shape) -> Result<Vec<Job>> {
    let mut rng = ChaCha8Rng::seed_from_u64(shape.seed);
    let mut jobs = match shape.mix {
        Mix::Trace | Mix::Large => from_trace(trace, shape, &mut rng)?,
        Mix::Bursts => bursts(shape, &mut rng),
    };
    if shape.mix == Mix::Large {
        enlarge(&mut jobs, shape, &mut rng);
    }
    stretch(&mut jobs, shape);
    jobs.sort_by_key(|job| job.submit_s);
    Ok(jobs)
}

/// Consecutive jobs of the trace from a place that is drawn.
fn from_trace(trace: &[Traced], shape: &Shape, rng: &mut ChaCha8Rng) -> Result<Vec<Job>> {
    let fitting: Vec<&Traced> = trace
        .iter()
        .filter(|job| job.duration_s >= SHORTEST_S && job.gpus <= shape.gpus() / 2)
        .collect();
    ensure!(
        fitting.len() >= shape.jobs,
        "the trace has {} jobs that run {SHORTEST_S} s or longer on {} GPUs or fewer; {} are asked for",
        fitting.len(),
        shape.gpus() / 2,
        shape.jobs
    );
    let first = rng.random_range(0..=fitting.len() - shape.jobs);
    let slice: Vec<&Traced> = fitting.into_iter().skip(first).take(shape.jobs).collect();
    let from = slice.first().map_or(0, |job| job.submit_s);
    let jobs = slice.into_iter().map(|traced| {
        let run_s = traced.duration_s.min(shape.longest_s);
        let class = match rng.random_range(0..100) {
            0..40 => Class::Low,
            40..75 => Class::Normal,
            _ => Class::High,
        };
        Job {
            submit_s: traced.submit_s - from,
            run_s,
            limit_minutes: traced.limit_s.map_or_else(
                || limit_minutes(run_s, rng),
                |limit| limit.div_ceil(60).max(run_s.div_ceil(60) + 1),
            ),
            gpus: whole_nodes(more_gpus(traced.gpus, rng), shape),
            account: match (&traced.account, traced.limit_s) {
                (Some(account), Some(_)) => account.clone(),
                _ => account(rng),
            },
            class,
            checkpoint_s: (class == Class::Low).then(|| checkpoint_s(rng)).flatten(),
        }
    });
    Ok(jobs.collect())
}

/// Half of those with one GPU get more.
fn more_gpus(gpus: u32, rng: &mut ChaCha8Rng) -> u32 {
    if gpus > 1 || rng.random_bool(0.5) {
        return gpus;
    }
    match rng.random_range(0..10) {
        0..3 => 2,
        3..6 => 4,
        6..9 => 8,
        _ => 16,
    }
}

/// A job of more than one node has whole ones.
fn whole_nodes(gpus: u32, shape: &Shape) -> u32 {
    if gpus <= shape.gpus_per_node {
        gpus
    } else {
        gpus.next_multiple_of(shape.gpus_per_node).min(shape.gpus())
    }
}

/// Three in ten are trainings; the others come together, and soon have to be done.
fn bursts(shape: &Shape, rng: &mut ChaCha8Rng) -> Vec<Job> {
    let trainings = shape.jobs * 3 / 10;
    // Any span will do: it is stretched to the load.
    const SPAN_S: u64 = 100_000;
    let mut jobs = Vec::new();
    for _ in 0..trainings {
        let run_s = rng.random_range(shape.longest_s / 3..=shape.longest_s);
        let gpus = match rng.random_range(0..4) {
            0 => shape.gpus_per_node / 2,
            1 | 2 => shape.gpus_per_node,
            _ => shape.gpus_per_node * 2,
        };
        jobs.push(Job {
            submit_s: rng.random_range(0..SPAN_S),
            run_s,
            limit_minutes: limit_minutes(run_s, rng),
            gpus,
            account: account(rng),
            class: Class::Low,
            checkpoint_s: checkpoint_s(rng),
        });
    }
    while jobs.len() < shape.jobs {
        let at = rng.random_range(SPAN_S / 20..SPAN_S);
        let account = account(rng);
        let many = rng.random_range(4..=12).min(shape.jobs - jobs.len());
        for place in 0..many {
            let run_s = rng.random_range(SHORTEST_S..=600);
            jobs.push(Job {
                // Stretched later, with the rest; a burst is over within a minute or so.
                submit_s: at + u64::try_from(place).unwrap_or(0) * 5,
                run_s,
                limit_minutes: limit_minutes(run_s, rng),
                gpus: rng.random_range(1..=4),
                account: account.clone(),
                class: Class::High,
                checkpoint_s: None,
            });
        }
    }
    jobs
}

/// Makes jobs larger, in an order that is drawn, until a quarter of the GPU-hours is in large ones.
fn enlarge(jobs: &mut [Job], shape: &Shape, rng: &mut ChaCha8Rng) {
    let large = whole_nodes(shape.gpus() / 4, shape);
    let work = |job: &Job| u64::from(job.gpus) * job.run_s;
    for _ in 0..jobs.len() * 10 {
        let all: u64 = jobs.iter().map(work).sum();
        let in_large: u64 = jobs.iter().filter(|job| job.gpus >= large).map(work).sum();
        if in_large * 4 >= all {
            return;
        }
        let place = rng.random_range(0..jobs.len());
        if let Some(job) = jobs.get_mut(place) {
            job.gpus = job.gpus.max(large);
        }
    }
}

/// Spreads the submissions over the time in which the load is what it is to be.
fn stretch(jobs: &mut [Job], shape: &Shape) {
    let work: u64 = jobs.iter().map(|job| u64::from(job.gpus) * job.run_s).sum();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let span = work as f64 / (f64::from(shape.gpus()) * shape.load);
    let last = jobs
        .iter()
        .map(|job| job.submit_s)
        .max()
        .unwrap_or(0)
        .max(1);
    for job in jobs {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the span"
        )]
        let at = (job.submit_s as f64 / last as f64 * span) as u64;
        job.submit_s = at;
    }
}

/// 1.1 to 4 times what it takes.
fn limit_minutes(run_s: u64, rng: &mut ChaCha8Rng) -> u64 {
    (run_s * rng.random_range(110..=400) / 100).div_ceil(60) + 1
}

/// Seven in ten write checkpoints, every 10 to 60 minutes.
fn checkpoint_s(rng: &mut ChaCha8Rng) -> Option<u64> {
    rng.random_bool(0.7).then(|| rng.random_range(600..=3600))
}

/// By Zipf: the second submits half of what the first does, the third a third.
fn account(rng: &mut ChaCha8Rng) -> String {
    let all: f64 = (1..=ACCOUNTS).map(|rank| 1.0 / f64::from(rank)).sum();
    let mut drawn = rng.random_range(0.0..all);
    for rank in 1..=ACCOUNTS {
        drawn -= 1.0 / f64::from(rank);
        if drawn < 0.0 {
            return format!("a{rank:02}");
        }
    }
    format!("a{ACCOUNTS:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(mix: Mix, seed: u64) -> Shape {
        Shape {
            nodes: 16,
            gpus_per_node: 8,
            jobs: 400,
            load: 1.1,
            mix,
            longest_s: 3600,
            seed,
        }
    }

    fn trace() -> Vec<Traced> {
        (0..1000)
            .map(|n| Traced {
                submit_s: n * 60,
                duration_s: 200 + n * 7 % 9000,
                gpus: if n % 10 == 0 { 8 } else { 1 },
                account: Some("vc".into()),
                limit_s: None,
            })
            .collect()
    }

    fn work(job: &Job) -> u64 {
        u64::from(job.gpus) * job.run_s
    }

    #[test]
    fn the_load_is_what_was_asked_for_and_jobs_fit() {
        for mix in [Mix::Trace, Mix::Large, Mix::Bursts] {
            let shape = shape(mix, 1);
            let jobs = jobs(&trace(), &shape).unwrap();
            assert_eq!(jobs.len(), 400, "{mix}");
            let all: u64 = jobs.iter().map(work).sum();
            let span = jobs.last().unwrap().submit_s;
            let load = all as f64 / (128.0 * span as f64);
            assert!((load - 1.1).abs() < 0.01, "{mix}: {load}");
            assert!(jobs.is_sorted_by_key(|job| job.submit_s), "{mix}");
            for job in &jobs {
                assert!(job.run_s >= 120 && job.run_s <= 3600, "{mix}: {job:?}");
                assert!(job.limit_minutes * 60 > job.run_s, "{mix}: {job:?}");
                assert!(job.gpus <= 8 || job.gpus % 8 == 0, "{mix}: {job:?}");
                assert!(job.gpus <= 128, "{mix}: {job:?}");
                let marks = job.checkpoint_s.is_some();
                assert!(!marks || job.class == Class::Low, "{mix}: {job:?}");
            }
            let low = jobs.iter().filter(|job| job.class == Class::Low);
            let marking = low.clone().filter(|job| job.checkpoint_s.is_some());
            let share = marking.count() * 100 / low.count();
            assert!((55..=85).contains(&share), "{mix}: {share} %");
        }
        let large = jobs(&trace(), &shape(Mix::Large, 1)).unwrap();
        let in_large: u64 = large.iter().filter(|job| job.gpus >= 32).map(work).sum();
        assert!(in_large * 4 >= large.iter().map(work).sum());
    }

    #[test]
    fn the_same_seed_gives_the_same_jobs_and_another_others() {
        let of = |seed| jobs(&trace(), &shape(Mix::Trace, seed)).unwrap();
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn a_trace_that_is_too_short_is_refused() {
        let error = jobs(&trace()[..10], &shape(Mix::Trace, 1)).unwrap_err();
        assert!(error.to_string().contains("10 jobs"), "{error}");
    }
}
