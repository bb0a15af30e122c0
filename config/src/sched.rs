//! The sections of the scheduling plugins. They are the controller's: classes of nodes do not say them.

use serde::Deserialize;

use crate::checked;

/// Whether a plugin decides, or only tells what it would decide.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It computes, logs and counts; Slurm decides as it would without it.
    Observe,
    /// It decides.
    Enforce,
}

/// What each part of the site factor is worth at most, in points of priority.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Weights {
    /// A job that is soon done.
    #[serde(deserialize_with = "checked::short")]
    pub short: Option<u32>,
    /// A job that has had little GPU time so far.
    #[serde(deserialize_with = "checked::las")]
    pub las: Option<u32>,
    /// A job that has waited long for what it is.
    #[serde(deserialize_with = "checked::age")]
    pub age: Option<u32>,
    /// A job of many GPUs.
    #[serde(deserialize_with = "checked::big")]
    pub big: Option<u32>,
    /// A job that fills a hole.
    #[serde(deserialize_with = "checked::hole")]
    pub hole: Option<u32>,
    /// An account that has had less than its share.
    #[serde(deserialize_with = "checked::owed")]
    pub owed: Option<u32>,
    /// A job that has starved.
    #[serde(deserialize_with = "checked::star")]
    pub star: Option<u32>,
}

/// `[site_factor]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct SiteFactor {
    /// Whether priorities are changed.
    pub mode: Option<Mode>,
    /// The parts.
    pub weights: Weights,
    /// The slowdown at which a job's age counts in full.
    #[serde(deserialize_with = "checked::xfactor_max")]
    pub xfactor_max: Option<f64>,
    /// How long a small job waits before it has starved, in hours; larger ones wait longer.
    #[serde(deserialize_with = "checked::starve_after_hours")]
    pub starve_after_hours: Option<f64>,
    /// How many starved jobs of a partition are lifted at a time.
    #[serde(deserialize_with = "checked::max_boosted")]
    pub max_boosted: Option<u32>,
    /// The smallest change that is written.
    #[serde(deserialize_with = "checked::hysteresis")]
    pub hysteresis: Option<u32>,
    /// Where the history of run times is kept.
    #[serde(deserialize_with = "checked::history_file")]
    pub history_file: Option<String>,
}

/// `[preempt]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Preempt {
    /// Whether victims are chosen, or only told.
    pub mode: Option<Mode>,
    /// More lost time than this counts as this much, in hours.
    #[serde(deserialize_with = "checked::max_loss_cap_hours")]
    pub max_loss_cap_hours: Option<u32>,
    /// How often a job that marks no checkpoints is taken to write one, in minutes.
    #[serde(deserialize_with = "checked::assumed_interval_minutes")]
    pub assumed_interval_minutes: Option<u32>,
    /// What starting again takes, in seconds.
    #[serde(deserialize_with = "checked::restart_seconds")]
    pub restart_seconds: Option<u32>,
    /// How much more a job costs for each time that it was started again: 0.5 is half as much again.
    #[serde(deserialize_with = "checked::repeat_penalty")]
    pub repeat_penalty: Option<f64>,
    /// A job that would start by itself within this time takes no victims, in seconds.
    #[serde(deserialize_with = "checked::min_gain_seconds")]
    pub min_gain_seconds: Option<u32>,
    /// A job that ends by itself within this time is waited for, in seconds.
    #[serde(deserialize_with = "checked::wait_short_seconds")]
    pub wait_short_seconds: Option<u32>,
    /// The most GPU-hours that may be lost in an hour; 0: no bound.
    #[serde(deserialize_with = "checked::max_lost_gpu_hours_per_hour")]
    pub max_lost_gpu_hours_per_hour: Option<f64>,
    /// After how many vain attempts a job is offered all victims that Slurm allows.
    #[serde(deserialize_with = "checked::fallback_after")]
    pub fallback_after: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn all_keys() {
        let text = r#"
            [site_factor]
            mode = "enforce"
            weights = { short = 30000, las = 10000, age = 40000, big = 5000, hole = 3000, owed = 0, star = 2000000 }
            xfactor_max = 20
            starve_after_hours = 0.5
            max_boosted = 1
            hysteresis = 500
            history_file = "/run/sgpu/history"

            [preempt]
            mode = "observe"
            max_loss_cap_hours = 8
            assumed_interval_minutes = 60
            restart_seconds = 120
            repeat_penalty = 0.5
            min_gain_seconds = 120
            wait_short_seconds = 60
            max_lost_gpu_hours_per_hour = 0
            fallback_after = 3
        "#;
        let sections = parse(text, "n1").unwrap();
        assert_eq!(
            sections.site_factor,
            SiteFactor {
                mode: Some(Mode::Enforce),
                weights: Weights {
                    short: Some(30_000),
                    las: Some(10_000),
                    age: Some(40_000),
                    big: Some(5_000),
                    hole: Some(3_000),
                    owed: Some(0),
                    star: Some(2_000_000),
                },
                xfactor_max: Some(20.0),
                starve_after_hours: Some(0.5),
                max_boosted: Some(1),
                hysteresis: Some(500),
                history_file: Some("/run/sgpu/history".into()),
            }
        );
        assert_eq!(
            sections.preempt,
            Preempt {
                mode: Some(Mode::Observe),
                max_loss_cap_hours: Some(8),
                assumed_interval_minutes: Some(60),
                restart_seconds: Some(120),
                repeat_penalty: Some(0.5),
                min_gain_seconds: Some(120),
                wait_short_seconds: Some(60),
                max_lost_gpu_hours_per_hour: Some(0.0),
                fallback_after: Some(3),
            }
        );
        let silent = parse("[preempt]\n[site_factor]\n", "n1").unwrap();
        assert_eq!(silent.preempt, Preempt::default());
        assert_eq!(silent.site_factor, SiteFactor::default());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_key() {
        for (text, words) in [
            (
                "[preempt]\nmode = \"kill\"\n",
                &["line 2", "kill", "observe"][..],
            ),
            ("[preempt]\ncap = 1\n", &["line 2", "cap"]),
            (
                "[preempt]\nmax_loss_cap_hours = 0\n",
                &["line 2", "max_loss_cap_hours", "0", "8760"],
            ),
            (
                "[preempt]\nrestart_seconds = -1\n",
                &["line 2", "restart_seconds", "-1"],
            ),
            (
                "[preempt]\nmin_gain_seconds = 99999999999\n",
                &["min_gain_seconds"],
            ),
            (
                "[preempt]\nmin_gain_seconds = \"2\"\n",
                &["line 2", "min_gain_seconds"],
            ),
            (
                "[preempt]\nrepeat_penalty = nan\n",
                &["line 2", "repeat_penalty", "NaN"],
            ),
            (
                "[preempt]\nmax_lost_gpu_hours_per_hour = inf\n",
                &["max_lost_gpu_hours_per_hour"],
            ),
            (
                "[preempt]\nmax_lost_gpu_hours_per_hour = -0.5\n",
                &["max_lost_gpu_hours_per_hour"],
            ),
            ("[preempt]\nfallback_after = 0\n", &["fallback_after"]),
            (
                "[preempt]\nassumed_interval_minutes = 0\n",
                &["assumed_interval_minutes"],
            ),
            (
                "[preempt]\nwait_short_seconds = 3601\n",
                &["wait_short_seconds", "3601", "3600"],
            ),
            (
                "[site_factor]\nxfactor_max = 1\n",
                &["line 2", "xfactor_max"],
            ),
            (
                "[site_factor]\nstarve_after_hours = 0\n",
                &["starve_after_hours"],
            ),
            (
                "[site_factor]\nweights = { star = 100000001 }\n",
                &["line 2", "star", "100000001"],
            ),
            (
                "[site_factor]\nweights = { shrt = 1 }\n",
                &["line 2", "shrt"],
            ),
            (
                "[site_factor]\nhistory_file = \"history\"\n",
                &["line 2", "history_file"],
            ),
            (
                "[[class]]\nnodes = \"n1\"\npreempt.mode = \"enforce\"\n",
                &["line 3", "preempt"],
            ),
            (
                "[[class]]\nnodes = \"n1\"\nsite_factor.mode = \"enforce\"\n",
                &["site_factor"],
            ),
        ] {
            let error = parse(text, "n1").unwrap_err();
            for word in words {
                assert!(error.contains(word), "{word:?} is not in {error}");
            }
        }
    }
}
