//! The site's settings, with the defaults for what it leaves open.

use sgpu_config::{Mode, SiteFactor, Weights};

/// What counts for all jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Whether priorities are changed.
    pub mode: Mode,
    /// [`short`](super::short) at its best, in points of priority.
    pub short: f64,
    /// [`las`](super::las) at its best.
    pub las: f64,
    /// [`age`](super::age) at its best.
    pub age: f64,
    /// [`big`](super::big) at its best.
    pub big: f64,
    /// A hole filled at its best.
    pub hole: f64,
    /// [`owed`](super::owed) at its best.
    pub owed: f64,
    /// A starved job.
    pub star: f64,
    /// The slowdown at which age counts in full.
    pub xfactor_max: f64,
    /// How long a small job waits before it has starved, in seconds.
    pub starve_after: f64,
    /// How many starved jobs of a partition are lifted at a time.
    pub max_boosted: usize,
    /// The smallest change that is written.
    pub hysteresis: u32,
}

impl Settings {
    /// The site's.
    #[must_use]
    pub fn new(site: &SiteFactor) -> Self {
        let Weights {
            short,
            las,
            age,
            big,
            hole,
            owed,
            star,
        } = site.weights;
        let weight = |given: Option<u32>, default: u32| f64::from(given.unwrap_or(default));
        Self {
            mode: site.mode.unwrap_or(Mode::Observe),
            short: weight(short, 30_000),
            las: weight(las, 10_000),
            age: weight(age, 40_000),
            big: weight(big, 5_000),
            hole: weight(hole, 3_000),
            owed: weight(owed, 0),
            star: weight(star, 2_000_000),
            xfactor_max: site.xfactor_max.unwrap_or(20.0),
            starve_after: site.starve_after_hours.unwrap_or(6.0) * 3600.0,
            max_boosted: usize::try_from(site.max_boosted.unwrap_or(1)).unwrap_or(1),
            hysteresis: site.hysteresis.unwrap_or(500),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(&SiteFactor::default())
    }
}
