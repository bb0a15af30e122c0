//! The wall between a hook of ours and the daemon that calls it.
//!
//! A Rust panic that reaches an `extern "C"` frame aborts the process (slurm-host: in slurmctld or
//! slurmd an outage). [`Hook::run`] stops it, writes one line to Slurm's log and answers with the
//! hook's declared fallback. After [`FAULTS_BEFORE_QUIET`] faults the hook is not entered again
//! until the plugin is loaded anew: a plugin that is broken steps aside.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::log;

/// A hook that has panicked this often is no longer entered.
pub const FAULTS_BEFORE_QUIET: u32 = 3;

/// One exported hook: its name and how often it has failed.
#[derive(Debug)]
pub struct Hook {
    name: &'static str,
    faults: AtomicU32,
}

impl Hook {
    /// A hook under the name that Slurm calls it by.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            faults: AtomicU32::new(0),
        }
    }

    /// Whether the hook has failed so often that it is no longer entered.
    pub fn is_quiet(&self) -> bool {
        self.faults.load(Ordering::Relaxed) >= FAULTS_BEFORE_QUIET
    }

    /// Runs `body` and gives its answer, or `fallback` when it panics or the hook has gone quiet.
    pub fn run<T>(&self, fallback: T, body: impl FnOnce() -> T) -> T {
        if self.is_quiet() {
            return fallback;
        }
        silence_panic_messages();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            inject_fault();
            body()
        }));
        match outcome {
            Ok(answer) => answer,
            Err(payload) => {
                let faults = self
                    .faults
                    .fetch_add(1, Ordering::Relaxed)
                    .saturating_add(1);
                let quiet = if faults >= FAULTS_BEFORE_QUIET {
                    ", and it is not entered again until slurm loads the plugin anew"
                } else {
                    ""
                };
                log::error(format_args!(
                    "{}: internal fault {faults}: {}; slurm goes on with the hook's fallback{quiet}",
                    self.name,
                    reason(payload.as_ref()),
                ));
                // Dropping a payload can run arbitrary code, which may panic in its turn.
                std::mem::forget(payload);
                fallback
            }
        }
    }
}

/// The default panic hook writes to the daemon's standard error, which may be a job's. The guard
/// logs instead.
fn silence_panic_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| panic::set_hook(Box::new(|_| {})));
}

#[cfg(not(feature = "fault"))]
fn inject_fault() {}

/// The fault build: see the feature `fault` in Cargo.toml.
#[cfg(feature = "fault")]
#[allow(clippy::panic)]
fn inject_fault() {
    panic!("this is the fault build");
}

fn reason(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

#[cfg(all(test, not(feature = "fault")))]
mod tests {
    use super::*;

    #[test]
    fn an_answer_passes_through() {
        assert_eq!(Hook::new("p_hook").run(-1, || 7), 7);
    }

    #[test]
    fn a_panic_gives_the_fallback_and_is_logged_with_its_reason() {
        let hook = Hook::new("p_hook_that_panics");
        let lines = log::capture(|| {
            assert_eq!(hook.run(-1, || panic!("bit {} out of range", 9)), -1);
        });
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("p_hook_that_panics"), "{lines:?}");
        assert!(lines[0].contains("bit 9 out of range"), "{lines:?}");
    }

    #[test]
    fn a_hook_that_keeps_failing_is_no_longer_entered() {
        let hook = Hook::new("p_hook");
        let mut entered = 0;
        log::capture(|| {
            for _ in 0..10 {
                hook.run((), || {
                    entered += 1;
                    panic!("again");
                });
            }
        });
        assert_eq!(entered, 3);
        assert!(hook.is_quiet());
    }
}
