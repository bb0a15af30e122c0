//! Where a thread is within NVML.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::symbols::Call;

/// Where a thread is within NVML, for others to read: one word, so that call, GPU and time always
/// belong together.
#[derive(Debug)]
pub struct Trace {
    /// 0: nowhere. Else, from the lowest bit: 8 bits of call, 16 of GPU, and in the rest when the
    /// call began, in ms since `start`.
    word: AtomicU64,
    start: Instant,
}

/// The call's bits while the library is opened; a call has 1 + its number.
const LOAD: u8 = u8::MAX;
/// The GPU's bits when there is none.
const NO_DEVICE: u16 = u16::MAX;

/// A call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The function.
    pub(crate) call: &'static str,
    /// NVML index of the GPU.
    pub(crate) device: Option<u32>,
    /// For how long it has been in it.
    pub(crate) lasted: Duration,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            word: AtomicU64::new(0),
            start: Instant::now(),
        }
    }
}

impl Trace {
    /// Notes that a call begins.
    pub(crate) fn enter(&self, call: Call, device: Option<u32>) {
        let call = u8::try_from((call as usize).saturating_add(1)).unwrap_or(LOAD);
        let device = device.and_then(|index| u16::try_from(index).ok());
        self.note(call, device.unwrap_or(NO_DEVICE));
    }

    /// Notes that the library is about to be opened.
    pub(crate) fn enter_load(&self) {
        self.note(LOAD, NO_DEVICE);
    }

    fn note(&self, call: u8, device: u16) {
        let since = self.elapsed_ms();
        let word = u64::from(call) | (u64::from(device) << 8) | (since << 24);
        self.word.store(word, Ordering::Release);
    }

    /// Notes that it ended.
    pub(crate) fn leave(&self) {
        self.word.store(0, Ordering::Release);
    }

    /// The call and GPU that the thread is at; `None` when it is in no call.
    #[must_use]
    pub fn now(&self) -> Option<(&'static str, Option<u32>)> {
        self.place().map(|place| (place.call, place.device))
    }

    /// The call that the thread is in, and for how long; `None` when it is in none.
    pub(crate) fn place(&self) -> Option<Place> {
        let word = self.word.load(Ordering::Acquire);
        let [call, low, high, ..] = word.to_le_bytes();
        let (call, device) = match call {
            LOAD => ("dlopen", NO_DEVICE),
            _ => {
                let call = Call::from_number(usize::from(call.checked_sub(1)?))?;
                (call.name(), u16::from_le_bytes([low, high]))
            }
        };
        Some(Place {
            call,
            device: (device != NO_DEVICE).then_some(device.into()),
            lasted: Duration::from_millis(self.elapsed_ms().saturating_sub(word >> 24)),
        })
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn a_trace_tells_call_gpu_and_time() {
        let trace = Trace::default();
        assert_eq!(trace.place(), None);
        trace.enter_load();
        assert_eq!(trace.now(), Some(("dlopen", None)));
        trace.enter(Call::DeviceResetApplicationsClocks, Some(4095));
        std::thread::sleep(SHORT);
        let place = trace.place().unwrap();
        assert_eq!(
            (place.call, place.device),
            ("nvmlDeviceResetApplicationsClocks", Some(4095))
        );
        // In whole ms, each end rounded down.
        assert!(
            place.lasted >= SHORT - Duration::from_millis(1),
            "{place:?}"
        );
        trace.enter(Call::Init, None);
        assert!(trace.place().unwrap().lasted < LONG);
        trace.leave();
        assert_eq!(trace.place(), None);
    }
}
