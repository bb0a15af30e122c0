//! The parts of the factor, each from 0 to 1.

/// The shortest run that makes a difference, in seconds.
const SHORT_RUN: f64 = 600.0;
/// The GPU-seconds at which a job counts as long: 46 days of one GPU.
const LONG: f64 = 4e6;
/// The time on all its GPUs after which a job goes to the second and to the third queue, in seconds.
const QUEUES: [f64; 2] = [3600.0, 18_000.0];

/// Clamps to 0 to 1; what is no number is 0.
fn part(value: f64) -> f64 {
    if value.is_nan() {
        0.0
    } else {
        value.clamp(0.0, 1.0)
    }
}

/// GPUs, of which a job without any counts as having one.
fn gpus(gpus: u32) -> f64 {
    f64::from(gpus.max(1))
}

/// 1 for a job that is over at once, 0 for one that takes 46 days of one GPU or more, on a logarithmic scale.
#[must_use]
pub fn short(predicted_seconds: f64, wanted_gpus: u32) -> f64 {
    let work = predicted_seconds.max(0.0) * gpus(wanted_gpus);
    part(1.0 - (1.0 + work / SHORT_RUN).log2() / (1.0 + LONG / SHORT_RUN).log2())
}

/// 1, a half or a quarter by what a job had in its earlier runs: one that was pushed out early comes back soon.
#[must_use]
pub fn las(attained_gpu_seconds: f64, wanted_gpus: u32) -> f64 {
    let each = attained_gpu_seconds / gpus(wanted_gpus);
    match QUEUES.iter().filter(|end| each > **end).count() {
        0 => 1.0,
        1 => 0.5,
        _ => 0.25,
    }
}

/// How long a job has waited for what it is: 1 at a slowdown of `xfactor_max`.
#[must_use]
pub fn age(wait_seconds: f64, predicted_seconds: f64, xfactor_max: f64) -> f64 {
    let slowdown = 1.0 + wait_seconds.max(0.0) / predicted_seconds.max(SHORT_RUN);
    part(slowdown.ln() / xfactor_max.ln())
}

/// The share of its partition that a job wants, its root.
#[must_use]
pub fn big(wanted_gpus: u32, partition_gpus: u32) -> f64 {
    if partition_gpus == 0 {
        return 0.0;
    }
    part((f64::from(wanted_gpus) / f64::from(partition_gpus)).sqrt())
}

/// How much of what an account is entitled to it has not received.
#[must_use]
pub fn owed(received: f64, entitled: f64) -> f64 {
    if entitled <= 0.0 {
        return 0.0;
    }
    part(1.0 - received / entitled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-4, "{a} is not {b}");
    }

    #[test]
    fn by_hand() {
        // log2(1 + 4e6/600) = log2(6667.667) = 12.702970.
        near(short(0.0, 8), 1.0);
        near(short(600.0, 1), 1.0 - 1.0 / 12.702_970);
        near(short(600.0, 7), 1.0 - 3.0 / 12.702_970);
        near(short(600.0, 0), short(600.0, 1));
        near(short(4e6, 1), 0.0);
        near(short(1e12, 64), 0.0);

        near(las(0.0, 1), 1.0);
        near(las(3600.0, 1), 1.0);
        near(las(3601.0, 1), 0.5);
        near(las(8.0 * 3601.0, 8), 0.5);
        near(las(8.0 * 18_001.0, 8), 0.25);

        // ln 2 / ln 20 = 0.231378.
        near(age(0.0, 600.0, 20.0), 0.0);
        near(age(3600.0, 3600.0, 20.0), 0.231_378);
        near(age(600.0, 10.0, 20.0), 0.231_378);
        near(age(19.0 * 3600.0, 3600.0, 20.0), 1.0);
        near(age(1e9, 3600.0, 20.0), 1.0);

        near(big(32, 128), 0.5);
        near(big(256, 128), 1.0);
        near(big(4, 0), 0.0);

        near(owed(25.0, 100.0), 0.75);
        near(owed(200.0, 100.0), 0.0);
        near(owed(1.0, 0.0), 0.0);
    }

    #[test]
    fn a_small_job_ages_faster() {
        assert!(age(3600.0, 900.0, 20.0) > age(3600.0, 90_000.0, 20.0));
    }

    proptest! {
        #[test]
        fn always_from_0_to_1(a in any::<f64>(), b in any::<f64>(), g in any::<u32>(), of in any::<u32>(), x in 1.1..1000.0) {
            for value in [short(a, g), las(a, g), age(a, b, x), big(g, of), owed(a, b)] {
                prop_assert!((0.0..=1.0).contains(&value), "{}", value);
            }
        }

        #[test]
        fn a_longer_wait_is_never_less_age(a in 0.0..1e9, b in 0.0..1e9, p in 0.0..1e7, x in 1.1..1000.0) {
            prop_assert!(age(f64::min(a, b), p, x) <= age(f64::max(a, b), p, x));
        }

        #[test]
        fn a_longer_run_is_never_shorter(a in 0.0..1e9, b in 0.0..1e9, g in 0_u32..1000) {
            prop_assert!(short(f64::min(a, b), g) >= short(f64::max(a, b), g));
        }
    }
}
