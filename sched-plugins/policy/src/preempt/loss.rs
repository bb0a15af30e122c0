//! What pushing jobs out loses.

use std::iter::Sum;

use super::rules::Rules;
use super::state::{Job, Size};

/// Service classes that are told apart. Of more, the lowest count as one.
pub const CLASSES: usize = 6;

/// What pushing jobs out loses; the smaller is the better.
///
/// What is lost in a high class weighs more than anything in those below. Then counts the time that the jobs
/// have run, and last their number: among jobs of equal cost the youngest go, and one rather than two.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Loss {
    /// The cost, the highest class first, in thousandths of a GPU-second.
    pub by_class: [u64; CLASSES],
    /// The time that they have run, checkpoints or not, in thousandths of a GPU-second.
    pub run: u64,
    /// How many they are.
    pub jobs: u32,
}

impl Loss {
    /// Nothing is lost.
    pub const NONE: Self = Self {
        by_class: [0; CLASSES],
        run: 0,
        jobs: 0,
    };

    /// Both.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (sum, more) in self.by_class.iter_mut().zip(&other.by_class) {
            *sum = sum.saturating_add(*more);
        }
        self.run = self.run.saturating_add(other.run);
        self.jobs = self.jobs.saturating_add(other.jobs);
        self
    }

    /// One job more.
    #[must_use]
    pub(crate) fn with(mut self, price: &Price) -> Self {
        if let Some(cost) = self.by_class.get_mut(usize::from(price.place)) {
            *cost = cost.saturating_add(price.cost);
        }
        self.run = self.run.saturating_add(price.run);
        self.jobs = self.jobs.saturating_add(1);
        self
    }

    /// The cost in all classes together, in thousandths of a GPU-second.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_class
            .iter()
            .fold(0, |sum, cost| sum.saturating_add(*cost))
    }
}

impl Sum for Loss {
    fn sum<I: Iterator<Item = Self>>(losses: I) -> Self {
        losses.fold(Self::NONE, |sum, loss| sum.plus(&loss))
    }
}

/// What one job's going loses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Price {
    /// Where in [`Loss::by_class`].
    pub(crate) place: u8,
    /// In thousandths of a GPU-second, at least 1.
    pub(crate) cost: u64,
    /// [`Loss::run`].
    pub(crate) run: u64,
    /// No more than its cost for each of its GPUs.
    pub(crate) each: u64,
    /// No more than its run for each of its GPUs.
    pub(crate) run_each: u64,
}

/// How much of the cluster a job is, in thousandths of a GPU. A job without GPUs counts by its cores, a
/// thousandth each, so that it is not free.
fn weight(size: Size) -> u64 {
    u64::from(size.gpus)
        .saturating_mul(1000)
        .max(u64::from(size.cores))
        .max(1)
}

/// What a job's going costs, in thousandths of a GPU-second.
///
/// It is what the job did since its last checkpoint and what starting again takes, on all its GPUs, and more
/// for each time that it had to start again. A mark counts from the job's start to `now`. A job that never
/// marked is taken to write a checkpoint every [`Rules::assumed_seconds`]: it loses half of that on average,
/// and so does one that marks as often. Nobody is spared for not marking.
pub(crate) fn price(job: &Job, size: Size, place: u8, rules: &Rules, now: i64) -> Price {
    let start = job.start.min(now);
    let ran = since(start, now);
    let (from, cap) = match job.checkpoint {
        Some(mark) => (mark.clamp(start, now), rules.cap_seconds),
        None => (start, rules.cap_seconds.min(rules.assumed_seconds / 2)),
    };
    let lost = since(from, now).min(cap.into());
    let again = job.restart_seconds.unwrap_or(rules.restart_seconds);
    let repeats = u64::from(rules.repeat_per_mille)
        .saturating_mul(job.restarts.into())
        .saturating_add(1000);
    let weight = weight(size);
    let each = lost.saturating_add(again.into()).saturating_mul(repeats);
    Price {
        place,
        cost: (each.saturating_mul(weight) / 1000).max(1),
        run: ran.saturating_mul(weight),
        each,
        run_each: ran.saturating_mul(1000),
    }
}

/// What a job's going costs that has so many GPUs and cores on all its nodes, in thousandths of a GPU-second.
#[must_use]
pub fn cost(job: &Job, gpus: u32, cores: u32, rules: &Rules, now: i64) -> u64 {
    price(job, Size { gpus, cores }, 0, rules, now).cost
}

/// Seconds from one time to a later one.
fn since(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

/// The places of service classes in [`Loss::by_class`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// The classes, the highest first.
    classes: [u32; CLASSES],
    len: usize,
}

impl Places {
    /// Takes in a job's class. Only the highest are kept.
    pub(crate) fn add(&mut self, class: u32) {
        let known = self.classes.get(..self.len).unwrap_or_default();
        if known.contains(&class) {
            return;
        }
        let place = known.iter().filter(|other| **other > class).count();
        if let Some(lower) = self.classes.get_mut(place..) {
            lower.rotate_right(1);
            if let Some(slot) = lower.first_mut() {
                *slot = class;
            }
            self.len = self.len.saturating_add(1).min(CLASSES);
        }
    }

    /// How many are told apart.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The place of a class.
    pub(crate) fn of(&self, class: u32) -> u8 {
        let known = self.classes.get(..self.len).unwrap_or_default();
        let above = known.iter().filter(|other| **other > class).count();
        u8::try_from(above.min(CLASSES.saturating_sub(1))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sgpu_config::Preempt;

    fn rules() -> Rules {
        Rules::new(&Preempt::default(), 0)
    }

    /// Started `age` seconds ago, marked `mark` seconds ago. Now is 1,000,000.
    fn job(age: i64, mark: Option<i64>) -> Job {
        Job {
            start: 1_000_000 - age,
            checkpoint: mark.map(|mark| 1_000_000 - mark),
            ..Job::default()
        }
    }

    fn cost_of(job: &Job, gpus: u32) -> u64 {
        cost(job, gpus, 64, &rules(), 1_000_000)
    }

    #[test]
    fn gpus_times_what_is_lost() {
        // 8 GPUs, 60 s since the mark, 120 s to start again.
        assert_eq!(cost_of(&job(90_000, Some(60)), 8), 8 * 180 * 1000);
        // Never marked: all of 600 s, then half an hour at most.
        assert_eq!(cost_of(&job(600, None), 2), 2 * 720 * 1000);
        assert_eq!(cost_of(&job(90_000, None), 2), 2 * 1920 * 1000);
        // Marked long ago: 8 hours at most.
        assert_eq!(
            cost_of(&job(900_000, Some(90_000)), 1),
            (8 * 3600 + 120) * 1000
        );
        // Twice started again, half as much more each time.
        let twice = Job {
            restarts: 2,
            restart_seconds: Some(400),
            ..job(600, None)
        };
        assert_eq!(cost_of(&twice, 1), 2 * 1000 * 1000);
        // No GPUs, 64 cores.
        assert_eq!(cost_of(&job(80, None), 0), 200 * 64);
    }

    #[test]
    fn marks_count_within_the_run() {
        assert_eq!(cost_of(&job(600, Some(-50)), 1), 120 * 1000);
        assert_eq!(cost_of(&job(600, Some(601)), 1), 720 * 1000);
        // A clock that went back.
        assert_eq!(cost_of(&job(-600, Some(-700)), 1), 120 * 1000);
        assert_eq!(cost_of(&job(-600, None), 1), 120 * 1000);
    }

    #[test]
    fn a_job_that_marks_as_often_as_assumed_costs_as_much_as_one_that_does_not() {
        // Over the tenth to the nineteenth hour.
        let (mut with, mut without) = (0, 0);
        for age in 36_000_i64..72_000 {
            with += cost_of(&job(age, Some(age % 3600)), 1);
            without += cost_of(&job(age, None), 1);
        }
        let ratio = with as f64 / without as f64;
        assert!((ratio - 1.0).abs() < 0.001, "{ratio}");
    }

    #[test]
    fn high_classes_come_first() {
        let fill = |classes: &[u32]| {
            let mut places = Places::default();
            classes.iter().for_each(|class| places.add(*class));
            places
        };
        let places = fill(&[5, 5, 30, 10, 5]);
        assert_eq!([30, 10, 5].map(|class| places.of(class)), [0, 1, 2]);
        let places = fill(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(
            [8, 7, 6, 5, 4, 3, 2, 1].map(|class| places.of(class)),
            [0, 1, 2, 3, 4, 5, 5, 5]
        );
        let low = Loss::NONE.with(&Price {
            place: 1,
            cost: u64::MAX,
            run: 9,
            ..Price::default()
        });
        let high = Loss::NONE.with(&Price {
            place: 0,
            cost: 1,
            ..Price::default()
        });
        assert!(low < high);
        assert_eq!([low, high].into_iter().sum::<Loss>().jobs, 2);
    }

    proptest! {
        #[test]
        fn any_job_has_a_cost(
            start in any::<i64>(),
            mark in any::<Option<i64>>(),
            restarts in any::<u32>(),
            again in any::<Option<u32>>(),
            gpus in any::<u32>(),
            now in any::<i64>(),
        ) {
            let job = Job { start, checkpoint: mark, restarts, restart_seconds: again, ..Job::default() };
            prop_assert!(cost(&job, gpus, 1, &rules(), now) >= 1);
        }

        #[test]
        fn a_younger_mark_never_costs_more(age in 0_i64..1_000_000, a in 0_i64..1_000_000, b in 0_i64..1_000_000) {
            let (young, old) = (a.min(b), a.max(b));
            prop_assert!(cost_of(&job(age, Some(young)), 4) <= cost_of(&job(age, Some(old)), 4));
        }
    }
}
