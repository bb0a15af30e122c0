//! When to ask again for what has failed: pure rules.

use std::time::{Duration, Instant};

/// What a GPU lacks is asked for again after this time: some drivers say "Not Supported" while a
/// GPU comes up.
const RETRY: Duration = Duration::from_secs(30);
/// A session younger than this is not given up for a GPU's sake: opening NVML takes seconds and
/// concerns all GPUs.
const REOPEN: Duration = Duration::from_secs(60);

/// Whether a GPU has turned out to lack a call, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lack(Option<Instant>);

impl Lack {
    /// The GPU has said that it does not have it.
    pub(super) fn note(&mut self, now: Instant) {
        self.0 = Some(now);
    }

    /// Is the call worth making?
    pub(super) fn worth_asking(self, now: Instant) -> bool {
        self.0
            .is_none_or(|since| now.saturating_duration_since(since) >= RETRY)
    }
}

/// What the calls of a poll say about their session, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Health {
    /// Good for further polls.
    Good,
    /// A GPU is lost or cannot be identified time and again: a new session may find it.
    Doubtful,
    /// NVML does not know it any more: the driver was reloaded.
    Dead,
}

impl Health {
    /// May a session of this age serve the next poll?
    pub(super) fn keeps(self, age: Duration) -> bool {
        match self {
            Self::Good => true,
            Self::Doubtful => age < REOPEN,
            Self::Dead => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_lacking_is_asked_for_again_within_a_minute() {
        let now = Instant::now();
        let mut lack = Lack::default();
        assert!(lack.worth_asking(now));
        lack.note(now);
        assert!(!lack.worth_asking(now));
        assert!(!lack.worth_asking(now + 29 * SECOND));
        assert!(lack.worth_asking(now + 30 * SECOND));
        lack.note(now + 31 * SECOND);
        assert!(!lack.worth_asking(now + 60 * SECOND));
        assert!(lack.worth_asking(now + 61 * SECOND));
    }

    #[test]
    fn a_lost_gpu_costs_a_new_session_once_a_minute() {
        assert!(Health::Good.keeps(3600 * SECOND));
        assert!(Health::Doubtful.keeps(59 * SECOND));
        assert!(!Health::Doubtful.keeps(60 * SECOND));
        assert!(!Health::Dead.keeps(Duration::ZERO));
        assert_eq!(Health::Good.max(Health::Dead), Health::Dead);
        assert_eq!(Health::Doubtful.max(Health::Good), Health::Doubtful);
    }
}
