//! Joules of a step, from the counters that the GPUs keep.
//!
//! A GPU counts its own energy since its driver was loaded (`nvmlDeviceGetTotalEnergyConsumption`).
//! slurmd passes the counters on as they are; a step subtracts what they were when it began. So
//! nothing is lost when slurmd restarts in between, when polls are late, or when power jumps.

use std::collections::BTreeMap;

use crate::ledger::Span;

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

/// One gres index: which GPU stands there, and what it shows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sensor {
    /// [`Place::id`](crate::index::Place::id); 0 when nothing is known to stand there.
    pub gpu: u64,
    /// `None` when it could not be read this time.
    pub reading: Option<Reading>,
}

/// What a set of GPUs has used since the first reading of each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Used {
    /// Energy, in joules.
    pub joules: u64,
    /// Power at the last reading, in watts.
    pub watts: u32,
}

/// The GPUs of a node or step.
#[derive(Debug, Default)]
pub struct Meters {
    /// Which GPU stood at each gres index when it was first told of. A slurmd that starts anew without one
    /// of its GPUs numbers the others otherwise, but a step keeps those that it got.
    seats: Vec<u64>,
    gpus: BTreeMap<u64, Meter>,
}

impl Meters {
    /// No GPU, nothing used.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            seats: Vec::new(),
            gpus: BTreeMap::new(),
        }
    }

    /// Takes in one sensor per gres index, at a time in seconds of any steady clock. One that could not
    /// be read catches up at its next reading.
    pub fn feed(&mut self, sensors: impl IntoIterator<Item = Sensor>, at_seconds: u64) {
        for (index, sensor) in sensors.into_iter().enumerate() {
            if self.seats.len() <= index {
                self.seats.push(0);
            }
            if sensor.gpu == 0 {
                continue;
            }
            if let Some(seat) = self.seats.get_mut(index)
                && *seat == 0
            {
                *seat = sensor.gpu;
            }
            match sensor.reading {
                Some(reading) => self
                    .gpus
                    .entry(sensor.gpu)
                    .or_default()
                    .feed(reading, at_seconds),
                // What it drew before says nothing of now.
                None => {
                    if let Some(meter) = self.gpus.get_mut(&sensor.gpu) {
                        meter.power_watts = 0;
                    }
                }
            }
        }
    }

    /// Whether nothing has been read yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gpus.is_empty()
    }

    /// What all GPUs have used.
    #[must_use]
    pub fn all(&self) -> Used {
        sum(self.gpus.values())
    }

    /// What the GPUs that first stood at these gres indices have used, as spans of their counters.
    #[must_use]
    pub fn spans(&self, indices: &[usize]) -> Vec<Span> {
        indices
            .iter()
            .filter_map(|index| {
                let gpu = *self.seats.get(*index)?;
                let meter = self.gpus.get(&gpu)?;
                let (to, _) = meter.last?;
                Some(Span {
                    gpu,
                    from: to.saturating_sub(meter.used_joules),
                    to,
                })
            })
            .collect()
    }

    /// What the GPUs have used that first stood at these gres indices.
    #[must_use]
    pub fn of(&self, indices: &[usize]) -> Used {
        sum(indices
            .iter()
            .filter_map(|index| self.gpus.get(self.seats.get(*index)?)))
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

    /// One sensor per gres index, GPU 1 at the first.
    fn at<const N: usize>(readings: [Option<(u64, u32)>; N]) -> Vec<Sensor> {
        (1..)
            .zip(readings)
            .map(|(gpu, reading)| Sensor {
                gpu,
                reading: reading.map(|(counter_joules, power_watts)| Reading {
                    counter_joules,
                    power_watts,
                }),
            })
            .collect()
    }

    #[test]
    fn a_step_pays_for_its_own_gpus_from_its_own_start() {
        let mut meters = Meters::new();
        // Two GPUs that have run for long; the step has the second.
        meters.feed(at([Some((1_000_000, 70)), Some((5_000, 300))]), 0);
        assert_eq!(
            meters.of(&[1]),
            Used {
                joules: 0,
                watts: 300
            }
        );
        meters.feed(at([Some((1_004_200, 70)), Some((23_000, 310))]), 60);
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
        meters.feed(at([Some((100, 50))]), 0);
        meters.feed(at([None]), 10);
        assert_eq!(meters.of(&[0]).watts, 0);
        meters.feed(at([Some((700, 60))]), 20);
        assert_eq!(
            meters.of(&[0]),
            Used {
                joules: 600,
                watts: 60
            }
        );
    }

    #[test]
    fn a_step_keeps_its_gpus_when_slurmd_numbers_them_anew() {
        let sensor = |gpu, counter_joules| Sensor {
            gpu,
            reading: Some(Reading {
                counter_joules,
                power_watts: 100,
            }),
        };
        let mut meters = Meters::new();
        // The step has index 2, GPU 13, whose first reading fails. Then GPU 12 is gone.
        let unread = Sensor {
            gpu: 13,
            reading: None,
        };
        meters.feed(
            [
                sensor(11, 1_000),
                sensor(12, 50_000),
                unread,
                sensor(14, 7_000),
            ],
            0,
        );
        meters.feed(
            [
                sensor(11, 2_000),
                sensor(12, 51_000),
                sensor(13, 300),
                sensor(14, 8_000),
            ],
            10,
        );
        meters.feed([sensor(11, 3_000), sensor(13, 800), sensor(14, 9_000)], 20);
        assert_eq!(meters.of(&[2]).joules, 500);
        let span = Span {
            gpu: 13,
            from: 300,
            to: 800,
        };
        assert_eq!(meters.spans(&[2]), [span]);
        assert_eq!(meters.of(&[0]).joules, 2_000);
    }

    #[test]
    fn a_counter_that_begins_anew_loses_no_more_than_the_gap() {
        let mut meters = Meters::new();
        meters.feed(at([Some((90_000, 400))]), 0);
        meters.feed(at([Some((91_000, 400))]), 3);
        meters.feed(at([Some((250, 400))]), 6); // reset 250 J ago
        meters.feed(at([Some((1_250, 400))]), 9);
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
            meters.feed(at([Some((joules, 300))]), seconds);
        }
        assert_eq!(meters.of(&[0]).joules, 0);
        meters.feed(at([Some((7_780_000, 300))]), 40);
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
                meters.feed(at([counter.map(|joules| (joules, 1))]), seconds);
                prop_assert!(meters.all().joules >= before);
                before = meters.all().joules;
            }
        }
    }
}
