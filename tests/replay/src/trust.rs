//! Whether a replay says anything: CPU time does not run faster with the clock, so a scheduler that could not keep
//! up would be blamed on its policy.

use anyhow::{Context, Result, ensure};

use crate::site::{BF_INTERVAL_S, Replayed};

/// Submissions may come so late, in the cluster's seconds, but for one in twenty.
const LATE_S: u64 = 5;
/// Backfill may take this part of its period on average.
const BF_SHARE: f64 = 0.2;

/// What there is to know of slurmctld's pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Of twenty submissions, nineteen were no later than this.
    pub late_p95_s: u64,
    /// The mean of the main scheduler's rounds, in seconds of the cluster's clock.
    pub main_mean_s: f64,
    /// The same of backfill's; 0 without backfill.
    pub backfill_mean_s: f64,
}

impl Pace {
    /// Reads it.
    ///
    /// # Errors
    /// sdiag says nothing of it.
    pub fn of(replayed: &Replayed) -> Result<Self> {
        let late = &replayed.late_s;
        let place = (late.len() * 95).div_ceil(100).max(1) - 1;
        let (main, backfill) = cycles(&replayed.sdiag);
        Ok(Self {
            late_p95_s: late.get(place).copied().unwrap_or(0),
            main_mean_s: main.context("sdiag tells no mean of the main scheduler's cycles")?,
            backfill_mean_s: backfill.unwrap_or(0.0),
        })
    }

    /// Whether slurmctld could keep up.
    ///
    /// # Errors
    /// It could not; what to do.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.late_p95_s <= LATE_S,
            "submissions came {} s late by the cluster's clock (one in twenty, later): a lower --speed",
            self.late_p95_s
        );
        #[expect(clippy::cast_precision_loss, reason = "a number of seconds")]
        let most = BF_INTERVAL_S as f64 * BF_SHARE;
        ensure!(
            self.backfill_mean_s <= most,
            "backfill took {:.1} s of its {BF_INTERVAL_S} s by the cluster's clock: a lower --speed",
            self.backfill_mean_s
        );
        Ok(())
    }
}

/// The means of sdiag's two schedulers, in seconds.
fn cycles(sdiag: &str) -> (Option<f64>, Option<f64>) {
    let mut means = [None, None];
    let mut section = 0;
    for line in sdiag.lines() {
        if line.starts_with("Backfilling stats") {
            section = 1;
        }
        if let Some(mean) = line.trim().strip_prefix("Mean cycle:")
            && let Ok(microseconds) = mean.trim().parse::<f64>()
        {
            means[section] = Some(microseconds / 1e6);
        }
    }
    (means[0], means[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDIAG: &str = "Main schedule statistics (microseconds):\n\tLast cycle:   1100\n\tMax cycle:    49800\n\
        \tMean cycle:   5321\n\nBackfilling stats\n\tMean cycle: 7204405\n\tMean table size: 3\n";

    fn replayed(late_s: Vec<u64>, sdiag: &str) -> Replayed {
        Replayed {
            went: Vec::new(),
            late_s,
            sdiag: sdiag.into(),
            slurm_conf: String::new(),
        }
    }

    #[test]
    fn the_pace_is_read_and_judged() {
        let pace = Pace::of(&replayed((0..100).collect(), SDIAG)).unwrap();
        assert_eq!(pace.late_p95_s, 94);
        assert!((pace.main_mean_s - 0.005_321).abs() < 1e-9);
        assert!((pace.backfill_mean_s - 7.204_405).abs() < 1e-9);
        assert!(pace.check().unwrap_err().to_string().contains("94 s late"));
        let slow = Pace {
            late_p95_s: 5,
            ..pace
        };
        assert!(slow.check().unwrap_err().to_string().contains("7.2 s"));
        let fine = Pace {
            backfill_mean_s: 6.0,
            ..slow
        };
        assert!(fine.check().is_ok());
        assert!(Pace::of(&replayed(vec![], "")).is_err());
    }
}
