//! Power and energy over wall-clock time.
//!
//! The counter is the exact integral of the scenario's power since a fixed moment, so all
//! processes see the same counter and a test can work out the true joules. Times are kept in
//! microseconds and power in milliwatts; their product, nanojoules, is exact.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::scenario::{Cycle, Device};

/// Microseconds since 1970, of a time in seconds.
#[allow(clippy::cast_possible_truncation, reason = "times of this century fit")]
#[must_use]
pub fn micros(unix_seconds: f64) -> i128 {
    (unix_seconds * 1e6).round() as i128
}

/// Now, in microseconds since 1970.
#[must_use]
pub fn now_micros() -> i128 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i128::try_from(since.as_micros()).unwrap_or(0)
}

#[allow(clippy::cast_possible_truncation, reason = "power of a board fits")]
fn milliwatts(watts: f64) -> i128 {
    (watts * 1e3).round() as i128
}

/// A device's power over time.
#[derive(Debug, Clone)]
pub struct Power {
    /// Moment in µs and power in mW from then on; the first reaches back for ever.
    pieces: Vec<(i128, i128)>,
    cycle: Option<(i128, Vec<(i128, i128)>)>,
    epoch: i128,
    fixed_mj: Option<u64>,
}

impl Power {
    /// The device's power, or `None` if the scenario gives it none. `boot` is the moment, in µs
    /// since 1970, at which a counter without schedule begins.
    #[must_use]
    pub fn of(device: &Device, boot: i128) -> Option<Self> {
        let schedule = device.power_schedule.as_deref().unwrap_or_default();
        let known =
            device.power_w.is_some() || !schedule.is_empty() || device.power_cycle.is_some();
        if !known && device.energy_mj.is_none() {
            return None;
        }
        let mut pieces = vec![(i128::MIN, milliwatts(device.power_w.unwrap_or(0.0)))];
        pieces.extend(
            schedule
                .iter()
                .map(|&(at, watts)| (micros(at), milliwatts(watts))),
        );
        let cycle = device.power_cycle.as_ref().map(cycle_of);
        let first = schedule.first().map(|&(at, _)| micros(at));
        let epoch = device.energy_epoch_unix.map(micros);
        let epoch = epoch
            .or(first)
            .or(cycle.as_ref().map(|c| c.0))
            .unwrap_or(boot);
        Some(Self {
            pieces,
            cycle,
            epoch,
            fixed_mj: device.energy_mj,
        })
    }

    /// Power at this moment, in mW.
    #[must_use]
    pub fn milliwatts_at(&self, moment: i128) -> u32 {
        let power = match &self.cycle {
            Some((start, steps)) if moment >= *start => {
                let length: i128 = steps.iter().map(|step| step.0).sum();
                let mut into = (moment - start).rem_euclid(length);
                let mut power = 0;
                for &(duration, step) in steps {
                    power = step;
                    if into < duration {
                        break;
                    }
                    into -= duration;
                }
                power
            }
            _ => self
                .pieces
                .iter()
                .rev()
                .find(|piece| piece.0 <= moment)
                .map_or(0, |p| p.1),
        };
        u32::try_from(power).unwrap_or(0)
    }

    /// The counter at this moment, in mJ.
    #[must_use]
    pub fn millijoules_at(&self, moment: i128) -> u64 {
        if let Some(fixed) = self.fixed_mj {
            return fixed;
        }
        let from = self.epoch;
        let until = moment.max(from);
        let nanojoules = match &self.cycle {
            None => self.scheduled(from, until),
            Some((start, steps)) => {
                let cycled = |at: i128| repeated(steps, (at - start).max(0));
                self.scheduled(from, until.min(*start)) + cycled(until) - cycled(from)
            }
        };
        u64::try_from(nanojoules / 1_000_000).unwrap_or(0)
    }

    fn scheduled(&self, from: i128, until: i128) -> i128 {
        let ends = self
            .pieces
            .iter()
            .skip(1)
            .map(|piece| piece.0)
            .chain([i128::MAX]);
        let spent = self
            .pieces
            .iter()
            .zip(ends)
            .map(|(&(begin, power), end)| (until.min(end) - from.max(begin)).max(0) * power);
        if until <= from { 0 } else { spent.sum() }
    }
}

fn cycle_of(cycle: &Cycle) -> (i128, Vec<(i128, i128)>) {
    let steps = cycle
        .steps
        .iter()
        .map(|&(seconds, watts)| (micros(seconds), milliwatts(watts)));
    (micros(cycle.start_unix), steps.collect())
}

/// Nanojoules in the first `elapsed` µs of a cycle repeated for ever.
fn repeated(steps: &[(i128, i128)], elapsed: i128) -> i128 {
    let length: i128 = steps.iter().map(|step| step.0).sum();
    let whole: i128 = steps.iter().map(|step| step.0 * step.1).sum();
    let mut rest = elapsed % length;
    let mut part = 0;
    for &(duration, power) in steps {
        let spent = rest.min(duration);
        part += spent * power;
        rest -= spent;
    }
    elapsed / length * whole + part
}

/// When this machine booted, in µs since 1970; 0 if /proc does not say.
pub(crate) fn boot_micros() -> i128 {
    static BOOT: OnceLock<i128> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
        line.and_then(|seconds| seconds.trim().parse::<i128>().ok())
            .unwrap_or(0)
            * 1_000_000
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(power: &Power, seconds: f64) -> (u32, u64) {
        (
            power.milliwatts_at(micros(seconds)),
            power.millijoules_at(micros(seconds)),
        )
    }

    #[test]
    fn constant_from_epoch() {
        let device = Device {
            power_w: Some(70.5),
            energy_epoch_unix: Some(1000.0),
            ..Device::default()
        };
        let power = Power::of(&device, 0).unwrap();
        // 70.5 W over 10 s is 705 J.
        assert_eq!(at(&power, 1010.0), (70_500, 705_000));
        assert_eq!(at(&power, 990.0), (70_500, 0));
    }

    #[test]
    fn schedule_by_hand() {
        let device = Device {
            power_w: Some(60.0),
            power_schedule: Some(vec![(1000.0, 100.0), (1010.0, 400.0), (1020.5, 0.0)]),
            ..Device::default()
        };
        let power = Power::of(&device, 0).unwrap();
        assert_eq!(at(&power, 999.0), (60_000, 0));
        assert_eq!(at(&power, 1005.0), (100_000, 500_000));
        // 10 s at 100 W, 10.5 s at 400 W: 1000 J + 4200 J.
        assert_eq!(at(&power, 1020.5), (0, 5_200_000));
        assert_eq!(at(&power, 5000.0), (0, 5_200_000));
        let early = Device {
            energy_epoch_unix: Some(990.0),
            ..device.clone()
        };
        // And 10 s at 60 W before.
        assert_eq!(at(&Power::of(&early, 0).unwrap(), 1005.0).1, 1_100_000);
        let late = Device {
            energy_epoch_unix: Some(1012.0),
            ..device
        };
        assert_eq!(at(&Power::of(&late, 0).unwrap(), 1014.0).1, 800_000);
    }

    #[test]
    fn cycle_by_hand() {
        let cycle = Cycle {
            start_unix: 2000.0,
            steps: vec![(2.0, 100.0), (1.0, 700.0)],
        };
        let device = Device {
            power_w: Some(50.0),
            power_cycle: Some(cycle),
            energy_epoch_unix: Some(1990.0),
            ..Device::default()
        };
        let power = Power::of(&device, 0).unwrap();
        assert_eq!(at(&power, 1999.0), (50_000, 450_000));
        // 500 J before, then 900 J each 3 s: two cycles and 1 s at 100 W.
        assert_eq!(at(&power, 2007.0), (100_000, 500_000 + 1_800_000 + 100_000));
        assert_eq!(
            at(&power, 2008.5),
            (700_000, 500_000 + 1_800_000 + 200_000 + 350_000)
        );
    }

    #[test]
    fn counter_never_falls() {
        let cycle = Cycle {
            start_unix: 100.0,
            steps: vec![(0.3, 10.0), (0.7, 700.0)],
        };
        let device = Device {
            power_cycle: Some(cycle),
            ..Device::default()
        };
        let power = Power::of(&device, 0).unwrap();
        let seen: Vec<u64> = (0..500)
            .map(|n| power.millijoules_at(micros(99.0) + n * 7_919))
            .collect();
        assert!(seen.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
