//! All parts together.

use super::hole::Holes;
use super::parts;
use super::settings::Settings;

/// Slurm's zero of a site factor.
pub const NICE_OFFSET: u32 = 0x8000_0000;
/// What each job has, so that no priority falls to its floor.
const BASE: f64 = 1_000_000.0;
/// Slurm's NO_VAL and INFINITE are above.
const MOST: u32 = 0xffff_fffd;

/// A pending job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pending {
    /// GPUs on all nodes.
    pub gpus: u32,
    /// GPUs on each node.
    pub per_node: u32,
    /// GPUs of its partition.
    pub partition_gpus: u32,
    /// How long it has waited, in seconds; 0 while it is held or depends on another.
    pub wait_seconds: u32,
    /// How long it will run, in seconds.
    pub predicted_seconds: f64,
    /// What it had in its earlier runs.
    pub attained_gpu_seconds: f64,
    /// What its account received.
    pub received: f64,
    /// What its account is entitled to.
    pub entitled: f64,
    /// Whether it is among the starved that are lifted.
    pub is_star: bool,
}

/// What an update computes once for all jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tables {
    /// What filling holes is worth.
    pub holes: Holes,
}

/// The site factor of a job.
#[must_use]
pub fn factor(job: &Pending, tables: &Tables, settings: &Settings) -> u32 {
    let star = if job.is_star { settings.star } else { 0.0 };
    let mut points = BASE
        + settings.short * parts::short(job.predicted_seconds, job.gpus)
        + settings.las * parts::las(job.attained_gpu_seconds, job.gpus)
        + settings.big * parts::big(job.gpus, job.partition_gpus)
        + settings.hole * tables.holes.worth(job.per_node)
        + star;
    let wait = f64::from(job.wait_seconds);
    points += settings.age * parts::age(wait, job.predicted_seconds, settings.xfactor_max);
    if settings.owed > 0.0 {
        points += settings.owed * parts::owed(job.received, job.entitled);
    }
    whole(f64::from(NICE_OFFSET) + points)
}

/// What is to be written over an old factor; `None` when the change is too small to matter.
#[must_use]
pub fn to_write(old: u32, new: u32, settings: &Settings) -> Option<u32> {
    (old.abs_diff(new) > settings.hysteresis).then_some(new)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` goes to the nearest end"
)]
fn whole(points: f64) -> u32 {
    (points.round() as u32).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::super::hole::Mix;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        let settings = Settings::default();
        let job = Pending {
            gpus: 8,
            per_node: 8,
            partition_gpus: 128,
            wait_seconds: 3600,
            predicted_seconds: 3600.0,
            ..Pending::default()
        };
        // short: 1 - log2(1 + 48) / log2(1 + 6666.667) = 1 - 5.614710 / 12.702970 = 0.558002
        // las 1; age ln 2 / ln 20 = 0.231378; big 0.25; no holes.
        // 30000 * 0.558002 + 10000 + 40000 * 0.231378 + 5000 / 4 = 16740.06 + 10000 + 9255.1 + 1250
        let points = 37_245;
        let found = factor(&job, &Tables::default(), &settings);
        assert_eq!(found, NICE_OFFSET + 1_000_000 + points);
        let star = Pending {
            is_star: true,
            ..job
        };
        assert_eq!(
            factor(&star, &Tables::default(), &settings),
            found + 2_000_000
        );
        // Owed counts by its weight.
        let owed = Settings {
            owed: 1000.0,
            ..settings
        };
        let half = Pending {
            received: 50.0,
            entitled: 100.0,
            ..job
        };
        assert_eq!(factor(&half, &Tables::default(), &owed), found + 500);
        // A whole node is free and all want whole nodes: taking half of it is worth less.
        let mut mix = Mix::default();
        mix.arrive(8, 1);
        let tables = Tables {
            holes: Holes::new([8], &mix, 8),
        };
        let half_node = Pending { per_node: 4, ..job };
        assert_eq!(factor(&half_node, &tables, &settings), found - 1500);
    }

    #[test]
    fn newcomers_come_first_and_the_others_later() {
        let settings = Settings {
            owed: 20_000.0,
            ..Settings::default()
        };
        let job = |received, wait_seconds| Pending {
            gpus: 1,
            per_node: 1,
            partition_gpus: 32,
            wait_seconds,
            predicted_seconds: 3600.0,
            received,
            entitled: 100.0 * 3600.0,
            ..Pending::default()
        };
        let of = |job: Pending| factor(&job, &Tables::default(), &settings);
        // 200 GPU-hours had, none had.
        assert!(of(job(200.0 * 3600.0, 0)) < of(job(0.0, 0)));
        // At a slowdown of 20 the first one's age weighs more.
        assert!(of(job(200.0 * 3600.0, 19 * 3600)) > of(job(0.0, 0)));
    }

    #[test]
    fn small_changes_are_not_written() {
        let settings = Settings::default();
        assert_eq!(to_write(10_000, 10_500, &settings), None);
        assert_eq!(to_write(10_000, 9_499, &settings), Some(9_499));
        assert_eq!(to_write(0, u32::MAX, &settings), Some(u32::MAX));
    }

    proptest! {
        #[test]
        fn always_a_priority(
            gpus in any::<u32>(),
            per_node in any::<u32>(),
            of in any::<u32>(),
            wait in any::<u32>(),
            numbers in any::<[f64; 4]>(),
            is_star in any::<bool>(),
            weight in 0_u32..=100_000_000,
        ) {
            let job = Pending {
                gpus,
                per_node,
                partition_gpus: of,
                wait_seconds: wait,
                predicted_seconds: numbers[0],
                attained_gpu_seconds: numbers[1],
                received: numbers[2],
                entitled: numbers[3],
                is_star,
            };
            let weight = f64::from(weight);
            let settings = Settings { short: weight, las: weight, age: weight, big: weight, hole: weight, owed: weight, star: weight, ..Settings::default() };
            let found = factor(&job, &Tables::default(), &settings);
            prop_assert!(found > NICE_OFFSET && found <= MOST);
        }

        #[test]
        fn a_longer_wait_is_never_a_lower_factor(a in any::<u32>(), b in any::<u32>(), p in 0.0..1e7, gpus in 0_u32..64) {
            let job = |wait_seconds| Pending { gpus, predicted_seconds: p, wait_seconds, ..Pending::default() };
            let of = |wait| factor(&job(wait), &Tables::default(), &Settings::default());
            prop_assert!(of(a.min(b)) <= of(a.max(b)));
        }
    }
}
