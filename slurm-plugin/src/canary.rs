//! Layout canaries: before the first write to a struct of the host, fields whose value is known are
//! read. If one is wrong, the struct has moved and a write would corrupt the daemon.
//!
//! Slurm checks a plugin's version when it loads it; this is the belt to those braces. A plugin
//! holds one [`Canary`] per struct. Once wrong, it stays wrong: the plugin goes quiet.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::log;

const UNSEEN: u8 = 0;
const SOUND: u8 = 1;
const WRONG: u8 = 2;

/// The memory of one struct's check.
#[derive(Debug)]
pub struct Canary {
    what: &'static str,
    state: AtomicU8,
}

impl Canary {
    /// A canary for the struct that the host calls `what`.
    #[must_use]
    pub const fn new(what: &'static str) -> Self {
        Self {
            what,
            state: AtomicU8::new(UNSEEN),
        }
    }

    /// Whether the struct may be written to. `checks` runs at the first call only; each item is a
    /// field's name, the value that it must have, and the value that was read.
    pub fn sound<V: PartialEq + fmt::Debug>(
        &self,
        checks: impl IntoIterator<Item = (&'static str, V, V)>,
    ) -> bool {
        match self.state.load(Ordering::Acquire) {
            SOUND => return true,
            WRONG => return false,
            _ => {}
        }
        let wrong = checks
            .into_iter()
            .find(|(_, expected, read)| expected != read);
        if let Some((field, expected, read)) = &wrong {
            log::error(format_args!(
                "{}.{field} should be {expected:?} and is {read:?}: this plugin was built for another \
                 build of slurm and changes nothing; rebuild it from this slurm's own source",
                self.what
            ));
        }
        self.state.store(
            if wrong.is_some() { WRONG } else { SOUND },
            Ordering::Release,
        );
        wrong.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_let_writes_through_and_are_read_once() {
        let canary = Canary::new("job_record_t");
        assert!(canary.sound([("magic", 0xf0b7_392c_u32, 0xf0b7_392c)]));
        assert!(canary.sound::<u32>(std::iter::from_fn(|| panic!("read again"))));
    }

    #[test]
    fn a_moved_field_is_named_once_and_never_trusted_again() {
        let canary = Canary::new("job_record_t");
        let lines = log::capture(|| {
            assert!(!canary.sound([("magic", 1_u32, 1), ("site_factor", 2, 3)]));
            assert!(!canary.sound([("magic", 1_u32, 1)]));
        });
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].contains("job_record_t.site_factor should be 2 and is 3"),
            "{lines:?}"
        );
    }
}
