//! What to make of a thread that has not come back: pure rules.

use std::time::Duration;

use crate::nvml::trace::Place;
use crate::nvml::worker::Hung;

/// A call that concerns no single GPU and has lasted so long is waited for no more: one that hangs
/// for ever must not cost each of many callers its deadline.
const PATIENCE: Duration = Duration::from_secs(10);
/// A call of less than this is no hang, however short a caller's deadline.
const NO_HANG: Duration = Duration::from_millis(50);

/// What a caller does about the poll under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Waits for it.
    Wait,
    /// Fails; the thread stays the poll under way.
    Fail,
    /// Leaves the thread alone, for it hangs in one GPU.
    LeaveAlone,
}

/// `place` is where the thread is, `expired` whether the caller has waited out its `deadline`.
pub(super) fn verdict(place: Option<Place>, deadline: Duration, expired: bool) -> Verdict {
    let hangs = |place: Place| {
        // Who has not waited needs more to go by.
        let long = if expired { half(deadline) } else { deadline };
        place.device.is_some() && place.lasted >= long.max(NO_HANG)
    };
    let hopeless = |place: Place| place.device.is_none() && place.lasted >= deadline.max(PATIENCE);
    if place.is_some_and(hangs) {
        Verdict::LeaveAlone
    } else if expired || place.is_some_and(hopeless) {
        Verdict::Fail
    } else {
        Verdict::Wait
    }
}

/// The error of a caller that has `waited`: the call that the thread is in when it is to blame,
/// else the poll as a whole.
pub(super) fn in_words(place: Option<Place>, waited: Duration, deadline: Duration) -> Hung {
    let fresh = waited >= deadline;
    match place.filter(|place| place.lasted >= half(deadline)) {
        Some(place) => Hung {
            call: place.call,
            device: place.device,
            waited: place.lasted,
            fresh,
        },
        None => Hung {
            call: "a poll of all GPUs",
            device: None,
            waited,
            fresh,
        },
    }
}

fn half(deadline: Duration) -> Duration {
    deadline.checked_div(2).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(device: Option<u32>, ms: u64) -> Option<Place> {
        Some(Place {
            call: "nvmlCall",
            device,
            lasted: Duration::from_millis(ms),
        })
    }

    #[test]
    fn verdicts() {
        let second = Duration::from_secs(1);
        for (at, expired, expected) in [
            (None, false, Verdict::Wait),
            (None, true, Verdict::Fail),
            // One GPU: half of the deadline when it is over, all of it before.
            (place(Some(3), 499), true, Verdict::Fail),
            (place(Some(3), 500), true, Verdict::LeaveAlone),
            (place(Some(3), 999), false, Verdict::Wait),
            (place(Some(3), 1000), false, Verdict::LeaveAlone),
            // NVML's start: never left alone, but not waited for without end.
            (place(None, 3000), false, Verdict::Wait),
            (place(None, 3000), true, Verdict::Fail),
            (place(None, 9999), false, Verdict::Wait),
            (place(None, 10_000), false, Verdict::Fail),
        ] {
            assert_eq!(verdict(at, second, expired), expected, "{at:?} {expired}");
        }
        // A patient caller has its time.
        let minute = Duration::from_secs(60);
        assert_eq!(verdict(place(None, 10_000), minute, false), Verdict::Wait);
        // An impatient one blames no GPU.
        assert_eq!(
            verdict(place(Some(3), 49), Duration::ZERO, true),
            Verdict::Fail
        );
    }

    #[test]
    fn the_call_is_named_when_it_is_to_blame() {
        let second = Duration::from_secs(1);
        let named = in_words(place(Some(3), 500), second, second);
        assert_eq!(
            (named.call, named.device, named.fresh),
            ("nvmlCall", Some(3), true)
        );
        assert_eq!(named.waited, Duration::from_millis(500));
        let slow = in_words(place(Some(3), 20), second, second);
        assert_eq!((slow.call, slow.device), ("a poll of all GPUs", None));
        assert_eq!(slow.waited, second);
        assert!(!in_words(place(None, 10_000), Duration::ZERO, second).fresh);
    }
}
