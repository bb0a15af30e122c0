//! What an account has had lately: GPU-seconds that count half as much after each half-life.

/// GPU-seconds at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    gpu_seconds: f64,
    at: i64,
}

impl Usage {
    /// What is left of it now.
    #[must_use]
    pub fn now(&self, now: i64, half_life_seconds: f64) -> f64 {
        let kept = kept(self.at, now, half_life_seconds);
        self.gpu_seconds * kept
    }

    /// So many more. A clock that goes back takes nothing away.
    pub fn add(&mut self, gpu_seconds: f64, now: i64, half_life_seconds: f64) {
        let more = if gpu_seconds.is_finite() {
            gpu_seconds.max(0.0)
        } else {
            0.0
        };
        self.gpu_seconds = (self.now(now, half_life_seconds) + more).min(1e18);
        self.at = now;
    }
}

/// What part of something counts after a time.
#[expect(clippy::cast_precision_loss, reason = "years, to the second")]
pub(super) fn kept(from: i64, to: i64, half_life_seconds: f64) -> f64 {
    let passed = to.saturating_sub(from).max(0) as f64;
    (-passed / half_life_seconds.max(1.0)).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_after_each_half_life() {
        let mut usage = Usage::default();
        usage.add(800.0, 1000, 60.0);
        assert_eq!(usage.now(1060, 60.0), 400.0);
        assert_eq!(usage.now(900, 60.0), 800.0);
        usage.add(100.0, 1120, 60.0);
        assert_eq!(usage.now(1120, 60.0), 300.0);
        usage.add(f64::NAN, 1180, 60.0);
        assert_eq!(usage.now(1180, 60.0), 150.0);
        assert_eq!(usage.now(i64::MAX, 0.0), 0.0);
    }
}
