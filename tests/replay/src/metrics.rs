//! Figures over a replay. Times are in seconds, of the cluster's clock.
#![expect(
    clippy::cast_precision_loss,
    reason = "GPU-seconds of a replay are far below 2^53"
)]

use std::collections::BTreeMap;

use crate::runs::{End, Went};
use crate::workload::{Class, Job, Shape};

/// Sizes that are looked at alone: up to this many GPUs.
pub const SIZES: [(&str, u32); 4] = [("1", 1), ("2-4", 4), ("5-8", 8), (">8", u32::MAX)];

/// A distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// The mean; 0 of none, as are the others.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// Of a hundred, 95 are below.
    pub p95: f64,
    /// 99 are below.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// What a policy made of the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// GPU-seconds of the jobs submitted in the window, by those that there were.
    pub load: f64,
    /// Share of the window's GPU-seconds that jobs had.
    pub allocation: f64,
    /// The same, without what preempted runs lost.
    pub useful: f64,
    /// Seconds from submission to the first start.
    pub wait: Spread,
    /// The same, by [`SIZES`].
    pub wait_by_size: [Spread; 4],
    /// The same of `Low`, `Normal`, `High`.
    pub wait_by_class: [Spread; 3],
    /// Seconds from submission to the end.
    pub completion: Spread,
    /// Completion by undisturbed run time, 1 at least.
    pub slowdown: Spread,
    /// From the first submission to the last end.
    pub makespan_s: u64,
    /// Runs that another job ended.
    pub preemptions: usize,
    /// Their GPUs.
    pub victim_gpus: u64,
    /// GPU-hours since their last checkpoint.
    pub lost_gpu_hours: f64,
    /// Jain's index over accounts: GPU-seconds had in the window, by what was due: an equal share of all, or what
    /// they asked for if that is less.
    pub jain: f64,
    /// Completion by the completion alone on an equal share.
    pub fairness: Spread,
    /// Jobs that waited longer than a day and 20 times their run.
    pub starved: usize,
}

/// The part of the submissions that counts: what is before warms up, what is after drains.
fn window(jobs: &[Job]) -> (u64, u64) {
    let last = jobs.iter().map(|job| job.submit_s).max().unwrap_or(0);
    (last / 10, last * 9 / 10)
}

fn within(from: u64, to: u64, window: (u64, u64)) -> u64 {
    to.min(window.1).saturating_sub(from.max(window.0))
}

/// Reckons them.
#[must_use]
pub fn figures(jobs: &[Job], went: &[Went], shape: &Shape) -> Figures {
    let window = window(jobs);
    let pairs = || jobs.iter().zip(went);
    let inside = |job: &Job| (window.0..window.1).contains(&job.submit_s);
    let all = f64::from(shape.gpus()) * (window.1 - window.0) as f64;
    let asked: u64 = jobs
        .iter()
        .filter(|job| inside(job))
        .map(|job| u64::from(job.gpus) * job.run_s)
        .sum();
    let (mut had, mut lost_inside, mut lost) = (0, 0, 0);
    let (mut preemptions, mut victim_gpus) = (0, 0);
    let mut accounts: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (job, went) in pairs() {
        let gpus = u64::from(job.gpus);
        let account = accounts.entry(&job.account).or_default();
        if inside(job) {
            account.1 += (gpus * job.run_s) as f64;
        }
        for run in &went.runs {
            let share = gpus * within(run.start_s, run.end_s, window);
            had += share;
            account.0 += share as f64;
            if run.end == End::Preempted {
                let marks = went.checkpoints_s.iter().filter(|at| **at <= run.end_s);
                let kept = marks.copied().fold(run.start_s, u64::max);
                preemptions += 1;
                victim_gpus += gpus;
                lost += gpus * (run.end_s - kept);
                lost_inside += gpus * within(kept, run.end_s, window);
            }
        }
    }
    let wait = |keep: &dyn Fn(&Job) -> bool| {
        spread(
            pairs()
                .filter(|(job, _)| inside(job) && keep(job))
                .map(|(_, went)| {
                    let start = went.runs.first().map_or(0, |run| run.start_s);
                    start.saturating_sub(went.submit_s) as f64
                }),
        )
    };
    let completion = |went: &Went| {
        let end = went.runs.last().map_or(0, |run| run.end_s);
        end.saturating_sub(went.submit_s) as f64
    };
    let of_jobs = |value: &dyn Fn(&Job, f64) -> f64| {
        let chosen = pairs().filter(|(job, _)| inside(job));
        spread(chosen.map(|(job, went)| value(job, completion(went))))
    };
    let active: Vec<(f64, f64)> = accounts
        .values()
        .copied()
        .filter(|(_, asked)| *asked > 0.0)
        .collect();
    let equal = 1.0 / (active.len().max(1)) as f64;
    let size = |place: usize| {
        let low = place.checked_sub(1).map_or(0, |below| SIZES[below].1);
        wait(&move |job: &Job| job.gpus > low && job.gpus <= SIZES[place].1)
    };
    let class = |class: Class| wait(&move |job: &Job| job.class == class);
    Figures {
        load: asked as f64 / all,
        allocation: had as f64 / all,
        useful: (had - lost_inside) as f64 / all,
        wait: wait(&|_| true),
        wait_by_size: [size(0), size(1), size(2), size(3)],
        wait_by_class: [class(Class::Low), class(Class::Normal), class(Class::High)],
        completion: of_jobs(&|_, completion| completion),
        slowdown: of_jobs(&|job, completion| (completion / (job.run_s.max(10)) as f64).max(1.0)),
        makespan_s: makespan(went),
        preemptions,
        victim_gpus,
        lost_gpu_hours: lost as f64 / 3600.0,
        jain: jain(
            active
                .iter()
                .map(|(had, asked)| had / asked.min(equal * all)),
        ),
        fairness: of_jobs(&|job, completion| {
            let share = f64::from(shape.gpus()) * equal;
            completion / (job.run_s as f64 * (f64::from(job.gpus) / share).max(1.0))
        }),
        starved: pairs()
            .filter(|(job, went)| {
                let start = went.runs.first().map_or(0, |run| run.start_s);
                start.saturating_sub(went.submit_s) > (job.run_s * 20).max(86_400)
            })
            .count(),
    }
}

fn makespan(went: &[Went]) -> u64 {
    let first = went.iter().map(|went| went.submit_s).min().unwrap_or(0);
    let ends = went.iter().filter_map(|went| went.runs.last());
    ends.map(|run| run.end_s).max().unwrap_or(0) - first
}

/// The distribution of values. Percentiles are by nearest rank.
#[must_use]
pub fn spread(values: impl IntoIterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (Some(max), count) = (values.last().copied(), values.len()) else {
        return Spread::default();
    };
    let rank = |percent: usize| values[(count * percent).div_ceil(100).max(1) - 1];
    Spread {
        count,
        mean: values.iter().sum::<f64>() / count as f64,
        p50: rank(50),
        p95: rank(95),
        p99: rank(99),
        max,
    }
}

/// Jain's index: 1 when all are equal, 1/n when one has everything.
fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        count += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares > 0.0 {
        sum * sum / (count * squares)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::Run;
    use crate::workload::Mix;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    fn job(submit_s: u64, run_s: u64, gpus: u32, account: &str, class: Class) -> Job {
        Job {
            submit_s,
            run_s,
            limit_minutes: 100,
            gpus,
            account: account.into(),
            class,
            checkpoint_s: None,
        }
    }

    fn run(start_s: u64, end_s: u64, end: End) -> Run {
        Run {
            start_s,
            end_s,
            end,
        }
    }

    fn shape() -> Shape {
        Shape {
            nodes: 1,
            gpus_per_node: 8,
            jobs: 3,
            load: 1.0,
            mix: Mix::Trace,
            longest_s: 3600,
            seed: 0,
        }
    }

    /// Two jobs of 8 GPUs and one of 4 on 8 GPUs, submitted at 100, 500 and 1000; the window is [100, 900).
    #[test]
    fn a_preemption_by_hand() {
        let jobs = [
            job(100, 400, 8, "a", Class::Low),
            job(500, 100, 8, "b", Class::High),
            job(1000, 100, 4, "a", Class::Normal),
        ];
        let went = [
            Went {
                submit_s: 100,
                runs: vec![run(100, 510, End::Preempted), run(620, 820, End::Completed)],
                checkpoints_s: vec![300, 700],
            },
            Went {
                submit_s: 500,
                runs: vec![run(520, 620, End::Completed)],
                checkpoints_s: vec![],
            },
            Went {
                submit_s: 1000,
                runs: vec![run(1010, 1110, End::Completed)],
                checkpoints_s: vec![],
            },
        ];
        let figures = figures(&jobs, &went, &shape());
        // 8 x 400 + 8 x 100 of 8 x 800.
        near(figures.load, 4000.0 / 6400.0);
        // 8 x (410 + 200 + 100).
        near(figures.allocation, 5680.0 / 6400.0);
        // From the mark at 300 to 510 is lost.
        assert_eq!((figures.preemptions, figures.victim_gpus), (1, 8));
        near(figures.lost_gpu_hours, 8.0 * 210.0 / 3600.0);
        near(figures.useful, (5680.0 - 1680.0) / 6400.0);
        // The third was submitted after the window.
        assert_eq!(figures.wait.count, 2);
        near(figures.wait.mean, 10.0);
        near(figures.wait_by_class[2].mean, 20.0);
        assert_eq!(figures.wait_by_size[2].count, 2);
        // 720 of 400, 120 of 100.
        near(figures.slowdown.mean, (1.8 + 1.2) / 2.0);
        assert_eq!(figures.makespan_s, 1010);
        // a had 8 x 610 of the 3200 that it asked for, the half of all; b 800 of its 800.
        let (a, b) = (4880.0 / 3200.0, 1.0);
        near(figures.jain, (a + b) * (a + b) / (2.0 * (a * a + b * b)));
        assert_eq!(figures.starved, 0);
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let hundred = spread((1..=100).map(f64::from));
        near(hundred.p50, 50.0);
        near(hundred.p95, 95.0);
        near(hundred.p99, 99.0);
        near(hundred.mean, 50.5);
        let one = spread([7.0]);
        assert!(one.p50 == 7.0 && one.p99 == 7.0 && one.count == 1);
        assert_eq!(spread([]), Spread::default());
    }

    #[test]
    fn jain_is_one_for_equals_and_a_share_for_one_alone() {
        near(jain([3.0, 3.0, 3.0].into_iter()), 1.0);
        near(jain([4.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
    }
}
