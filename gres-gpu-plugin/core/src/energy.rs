//! Joules of a step, from the counters that the GPUs keep.
//!
//! A GPU counts its own energy since its driver was loaded (`nvmlDeviceGetTotalEnergyConsumption`).
//! slurmd passes the counters on as they are; a step subtracts what they were when it began. So
//! nothing is lost when slurmd restarts in between, when polls are late, or when power jumps.

/// What one GPU shows at one moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reading {
    /// Its counter, in joules since the driver was loaded.
    pub counter_joules: u64,
    /// Its power at the moment, in watts.
    pub power_watts: u32,
}

/// More than any GPU draws, with room for those to come.
const MOST_WATTS: u64 = 5_000;
/// Readings are a little older or younger than the clock says.
const CLOCK_SLACK_SECONDS: u64 = 2;

/// One GPU of a step.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    last: Option<(u64, u64)>,
    used_joules: u64,
    power_watts: u32,
}

impl Meter {
    fn feed(&mut self, reading: Reading, at_seconds: u64) {
        if let Some((last_joules, last_seconds)) = self.last {
            // A counter that fell began anew: the GPU was reset or its driver reloaded. What it shows now
            // was used since.
            let counter = reading.counter_joules;
            let grown = counter.checked_sub(last_joules).unwrap_or(counter);
            let most = at_seconds
                .saturating_sub(last_seconds)
                .saturating_add(CLOCK_SLACK_SECONDS)
                .saturating_mul(MOST_WATTS);
            // More than a GPU can use: a wrong reading, or another GPU under the same index after a restart
            // of slurmd. Counting goes on from here.
            if grown <= most {
                self.used_joules = self.used_joules.saturating_add(grown);
            }
        }
        self.last = Some((reading.counter_joules, at_seconds));
        self.power_watts = reading.power_watts;
    }
}

/// What a set of GPUs has used since the first reading of each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Used {
    /// Energy, in joules.
    pub joules: u64,
    /// Power at the last reading, in watts.
    pub watts: u32,
}

/// The GPUs of a node or step, by gres index.
#[derive(Debug, Default)]
pub struct Meters {
    gpus: Vec<Meter>,
}

impl Meters {
    /// No GPU, nothing used.
    #[must_use]
    pub const fn new() -> Self {
        Self { gpus: Vec::new() }
    }

    /// Takes in one reading of each GPU, in the order of their gres indices, at a time in seconds of any
    /// steady clock. `None` is a GPU that could not be read this time; it catches up at its next reading.
    pub fn feed(&mut self, readings: impl IntoIterator<Item = Option<Reading>>, at_seconds: u64) {
        for (index, reading) in readings.into_iter().enumerate() {
            if self.gpus.len() <= index {
                self.gpus.push(Meter::default());
            }
            if let (Some(meter), Some(reading)) = (self.gpus.get_mut(index), reading) {
                meter.feed(reading, at_seconds);
            }
        }
    }

    /// What all GPUs have used.
    #[must_use]
    pub fn all(&self) -> Used {
        sum(self.gpus.iter())
    }

    /// What the GPUs with these gres indices have used.
    #[must_use]
    pub fn of(&self, indices: &[usize]) -> Used {
        sum(indices.iter().filter_map(|index| self.gpus.get(*index)))
    }
}

fn sum<'a>(meters: impl Iterator<Item = &'a Meter>) -> Used {
    meters.fold(Used::default(), |used, meter| Used {
        joules: used.joules.saturating_add(meter.used_joules),
        watts: used.watts.saturating_add(meter.power_watts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(counter_joules: u64, power_watts: u32) -> Option<Reading> {
        Some(Reading {
            counter_joules,
            power_watts,
        })
    }

    #[test]
    fn a_step_pays_for_its_own_gpus_from_its_own_start() {
        let mut meters = Meters::new();
        // Two GPUs that have run for long; the step has the second.
        meters.feed([at(1_000_000, 70), at(5_000, 300)], 0);
        assert_eq!(
            meters.of(&[1]),
            Used {
                joules: 0,
                watts: 300
            }
        );
        meters.feed([at(1_004_200, 70), at(23_000, 310)], 60);
        assert_eq!(
            meters.of(&[1]),
            Used {
                joules: 18_000,
                watts: 310
            }
        );
        assert_eq!(
            meters.all(),
            Used {
                joules: 22_200,
                watts: 380
            }
        );
        // A bit that no GPU stands behind costs nothing.
        assert_eq!(meters.of(&[7]), Used::default());
    }

    #[test]
    fn a_missed_reading_is_caught_up() {
        let mut meters = Meters::new();
        meters.feed([at(100, 50)], 0);
        meters.feed([None], 10);
        meters.feed([at(700, 60)], 20);
        assert_eq!(
            meters.of(&[0]),
            Used {
                joules: 600,
                watts: 60
            }
        );
    }

    #[test]
    fn a_counter_that_begins_anew_loses_no_more_than_the_gap() {
        let mut meters = Meters::new();
        meters.feed([at(90_000, 400)], 0);
        meters.feed([at(91_000, 400)], 3);
        meters.feed([at(250, 400)], 6); // reset 250 J ago
        meters.feed([at(1_250, 400)], 9);
        assert_eq!(meters.of(&[0]).joules, 1_000 + 250 + 1_000);
    }

    #[test]
    fn no_reading_bills_more_than_a_gpu_can_use() {
        let mut meters = Meters::new();
        // A counter that shows 0 once, and another GPU's counter from the last reading on.
        for (seconds, joules) in [
            (0, 5_000_000_000),
            (10, 0),
            (20, 5_000_000_100),
            (30, 7_777_000),
        ] {
            meters.feed([at(joules, 300)], seconds);
        }
        assert_eq!(meters.of(&[0]).joules, 0);
        meters.feed([at(7_780_000, 300)], 40);
        assert_eq!(meters.of(&[0]).joules, 3_000);
    }

    proptest! {
        #[test]
        fn used_energy_never_falls_whatever_comes_in(
            counters in proptest::collection::vec(proptest::option::of(any::<u64>()), 0..60),
        ) {
            let mut meters = Meters::new();
            let mut before = 0;
            for (seconds, counter) in (0..).zip(counters) {
                let reading = counter.map(|counter_joules| Reading { counter_joules, power_watts: 1 });
                meters.feed([reading], seconds);
                prop_assert!(meters.all().joules >= before);
                before = meters.all().joules;
            }
        }
    }
}
