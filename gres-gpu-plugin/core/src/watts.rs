//! Joules through a channel that knows only watts.
//!
//! Slurm's own `acct_gather_energy/gpu` asks the driver for a power every 30 seconds and adds
//! `(previous + current) / 2 × seconds`, in whole watts and whole seconds; a power of 0 sets the sum
//! back to 0 (24.11 `acct_gather_energy_gpu.c`, `_update_energy`). [`Channel`] feeds it powers with
//! which that sum follows the GPU's own counter: the mean power since the last reading, given as the
//! previous power too, with what rounding lost carried over.

/// What goes through the channel for one GPU.
#[derive(Debug, Default)]
pub struct Channel {
    last: Option<Last>,
    /// What the powers given so far fall short of the counter, in mJ.
    owed_mj: i128,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    counter_mj: u64,
    at_unix: i64,
}

impl Channel {
    /// The power to give at a reading of the counter, in watts, never 0. `None` when no whole second
    /// has passed since the last one: there is no sample then, and the reading counts next time.
    ///
    /// The first reading gives `power_now_watts`, which Slurm only notes.
    pub fn watts(&mut self, counter_mj: u64, at_unix: i64, power_now_watts: u32) -> Option<u32> {
        let now = Last {
            counter_mj,
            at_unix,
        };
        let Some(last) = self.last else {
            self.last = Some(now);
            return Some(power_now_watts.max(1));
        };
        let seconds = at_unix
            .checked_sub(last.at_unix)
            .filter(|seconds| *seconds > 0)?;
        self.last = Some(now);
        // A counter that fell began anew: what it shows now was used since.
        let grown = counter_mj
            .checked_sub(last.counter_mj)
            .unwrap_or(counter_mj);
        let due = self.owed_mj.saturating_add(i128::from(grown));
        let per_watt = i128::from(seconds).saturating_mul(1000);
        let watts = u32::try_from(due.checked_div(per_watt)?)
            .unwrap_or(u32::MAX)
            .max(1);
        self.owed_mj = due.saturating_sub(i128::from(watts).saturating_mul(per_watt));
        Some(watts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What Slurm's plugin makes of powers that serve as previous and current alike.
    fn slurms_joules(samples: &[(i64, u32)]) -> i64 {
        samples
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0) * i64::from(pair[1].1 * 2) / 2)
            .sum()
    }

    #[test]
    fn fractions_of_a_watt_are_not_lost() {
        // 100.5 W, read every 30 s for an hour: 361,800 J.
        let mut channel = Channel::default();
        let samples: Vec<_> = (0..=120)
            .map(|n| {
                (
                    n * 30,
                    channel.watts(n as u64 * 3_015_000, n * 30, 100).unwrap(),
                )
            })
            .collect();
        assert!((slurms_joules(&samples) - 361_800).abs() <= 30);
    }

    #[test]
    fn a_reading_within_the_second_is_no_sample_and_counts_later() {
        let mut channel = Channel::default();
        assert_eq!(channel.watts(0, 100, 300), Some(300));
        assert_eq!(channel.watts(150_000, 100, 300), None);
        assert_eq!(channel.watts(600_000, 102, 300), Some(300));
    }

    #[test]
    fn no_power_is_never_given_as_none() {
        let mut channel = Channel::default();
        assert_eq!(channel.watts(5, 10, 0), Some(1));
        assert_eq!(channel.watts(5, 40, 0), Some(1));
        // The watt that was given and not used is taken back.
        assert_eq!(channel.watts(5 + 90_000, 70, 0), Some(2));
    }

    proptest! {
        #[test]
        fn the_sum_follows_the_counter(
            steps in proptest::collection::vec((1i64..120, 2u64..1_000), 1..200),
        ) {
            let (mut channel, mut at, mut counter) = (Channel::default(), 0, 0u64);
            let mut samples = vec![(0, channel.watts(0, 0, 1).unwrap())];
            for (seconds, watts) in &steps {
                at += seconds;
                counter += *seconds as u64 * watts * 1000 + 777;
                samples.push((at, channel.watts(counter, at, 1).unwrap()));
            }
            let off = slurms_joules(&samples) - (counter / 1000) as i64;
            prop_assert!(off.abs() <= steps.last().unwrap().0 + 1, "{off}");
        }
    }
}
