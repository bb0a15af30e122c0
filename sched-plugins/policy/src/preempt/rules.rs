//! The site's rules, with the defaults for what it leaves open.

use sgpu_config::{Mode, Preempt};

/// Thousandths of a GPU-second in a GPU-hour.
const GPU_HOUR: f64 = 3_600_000.0;

/// What counts for all preemptors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rules {
    /// Whether victims are chosen, or only told.
    pub mode: Mode,
    /// More lost time than this counts as this much.
    pub cap_seconds: u32,
    /// How often a job that marks no checkpoints is taken to write one.
    pub assumed_seconds: u32,
    /// What starting again takes, where a job does not tell.
    pub restart_seconds: u32,
    /// How much more a job costs for each time that it was started again, in thousandths.
    pub repeat_per_mille: u32,
    /// A job that would start by itself within this time takes no victims.
    pub min_gain_seconds: u32,
    /// A job that ends by itself within this time is waited for.
    pub wait_short_seconds: u32,
    /// The most that may be lost in an hour, in thousandths of a GPU-second; 0: no bound.
    pub hourly_budget: u64,
    /// After how many vain attempts a job is offered all victims.
    pub fallback_after: u32,
    /// How long victims may take to be gone: Slurm's KillWait, MessageTimeout and GraceTime, and a minute.
    pub settle_seconds: u32,
}

impl Rules {
    /// `settle_seconds` is Slurm's KillWait, MessageTimeout and longest GraceTime together; a minute is added.
    #[must_use]
    pub fn new(site: &Preempt, settle_seconds: u32) -> Self {
        Self {
            mode: site.mode.unwrap_or(Mode::Observe),
            cap_seconds: site.max_loss_cap_hours.unwrap_or(8).saturating_mul(3600),
            assumed_seconds: site
                .assumed_interval_minutes
                .unwrap_or(60)
                .saturating_mul(60),
            restart_seconds: site.restart_seconds.unwrap_or(120),
            repeat_per_mille: whole(site.repeat_penalty.unwrap_or(0.5) * 1000.0)
                .try_into()
                .unwrap_or(u32::MAX),
            min_gain_seconds: site.min_gain_seconds.unwrap_or(120),
            wait_short_seconds: site.wait_short_seconds.unwrap_or(60),
            hourly_budget: whole(site.max_lost_gpu_hours_per_hour.unwrap_or(0.0) * GPU_HOUR),
            fallback_after: site.fallback_after.unwrap_or(3),
            settle_seconds: settle_seconds.saturating_add(60),
        }
    }
}

/// The whole number next to it; what is none is 0.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` goes to the nearest end and makes NaN 0"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_units() {
        let rules = Rules::new(&Preempt::default(), 40);
        assert_eq!(
            rules,
            Rules {
                mode: Mode::Observe,
                cap_seconds: 28_800,
                assumed_seconds: 3600,
                restart_seconds: 120,
                repeat_per_mille: 500,
                min_gain_seconds: 120,
                wait_short_seconds: 60,
                hourly_budget: 0,
                fallback_after: 3,
                settle_seconds: 100,
            }
        );
        let site = Preempt {
            max_lost_gpu_hours_per_hour: Some(0.5),
            repeat_penalty: Some(100.0),
            ..Preempt::default()
        };
        let rules = Rules::new(&site, u32::MAX);
        assert_eq!(rules.hourly_budget, 1_800_000);
        assert_eq!(rules.repeat_per_mille, 100_000);
        assert_eq!(whole(f64::NAN), 0);
        assert_eq!(whole(f64::INFINITY), u64::MAX);
    }
}
