//! Signals by name.

use std::fmt;

/// A signal by its number on Linux.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Signal(i32);

/// Those that a program may be asked to checkpoint by: no other signal's meaning is taken away, and all can
/// be caught.
const KNOWN: [(&str, i32); 10] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("URG", 23),
    ("XCPU", 24),
    ("WINCH", 28),
];

impl Signal {
    /// The signal that Slurm ends a job by, and preempts it.
    pub const TERM: Self = Self(15);

    /// Reads a name, with `SIG` or without, in any case, or a number.
    ///
    /// # Errors
    /// In words for the user.
    pub fn parse(word: &str) -> Result<Self, String> {
        let upper = word.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let number = name.parse::<i32>().ok();
        KNOWN
            .iter()
            .find(|(known, own)| *known == name || number == Some(*own))
            .map(|(_, number)| Self(*number))
            .ok_or_else(|| {
                let names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                match name {
                    "KILL" | "STOP" => {
                        format!("{word:?} cannot be caught by any program: take one of {names}")
                    }
                    _ if number.is_some() => format!(
                        "{word:?} is none of the signals {names}; seconds stand behind an @, as in USR1@120"
                    ),
                    _ => format!("{word:?} is none of the signals {names}"),
                }
            })
    }

    /// Any signal by its number.
    #[must_use]
    pub const fn of_number(number: i32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KNOWN.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read() {
        for word in ["USR1", "usr1", "SIGUSR1", "sigusr1", "10"] {
            assert_eq!(Signal::parse(word), Ok(Signal(10)), "{word}");
        }
        assert_eq!(Signal::parse("TERM"), Ok(Signal::TERM));
        assert_eq!(Signal(12).to_string(), "USR2");
        assert_eq!(Signal(40).to_string(), "40");
    }

    #[test]
    fn what_cannot_be_caught_or_means_something_else_is_refused() {
        for word in ["KILL", "STOP", "9", "CHLD", "CONT", "USR3", "", "SIG", "-1"] {
            let error = Signal::parse(word).unwrap_err();
            assert!(error.contains(&format!("{word:?}")), "{error}");
            assert!(error.contains("USR1, USR2"), "{error}");
        }
    }
}
