//! Slurm releases and full versions.

use std::fmt;

/// A Slurm release that a Debian suite brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// 22.05, in Debian 12.
    Slurm22_05,
    /// 24.11, in Debian 13.
    Slurm24_11,
    /// 26.05, in Debian testing.
    Slurm26_05,
}

impl Release {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::Slurm22_05, Self::Slurm24_11, Self::Slurm26_05];
    /// Those on which everything is tested.
    pub const FULL: [Self; 2] = [Self::Slurm22_05, Self::Slurm24_11];

    /// Those that `cargo xtask test` names in `SGPU_SLURM`; without it, all.
    #[must_use]
    pub fn under_test() -> Vec<Self> {
        match std::env::var("SGPU_SLURM") {
            Ok(names) => Self::ALL
                .into_iter()
                .filter(|release| names.split_whitespace().any(|name| name == release.name()))
                .collect(),
            Err(_) => Self::ALL.to_vec(),
        }
    }

    /// The Debian suite that has it.
    #[must_use]
    pub fn suite(self) -> &'static str {
        match self {
            Self::Slurm22_05 => "bookworm",
            Self::Slurm24_11 => "trixie",
            Self::Slurm26_05 => "forky",
        }
    }

    /// Slurm's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slurm22_05 => "22.05",
            Self::Slurm24_11 => "24.11",
            Self::Slurm26_05 => "26.05",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A full version, read from a root's daemons; it names `dist/<version>/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The year of the release.
    pub major: u16,
    /// Its month.
    pub minor: u16,
    /// The maintenance release.
    pub micro: u16,
}

impl Version {
    /// Reads what `slurmd -V` prints (`slurm-wlm 22.05.8`, `slurm 24.11.5-0rc1`).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let word = text
            .split_whitespace()
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        let end = word
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .unwrap_or(word.len());
        let mut numbers = word.get(..end)?.split('.').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            major: next()?,
            minor: next()?,
            micro: next()?,
        })
    }

    /// Whether it is of release `major.minor` or a later one.
    #[must_use]
    pub fn at_least(self, major: u16, minor: u16) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}.{}", self.major, self.minor, self.micro)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_daemons_print_them() {
        for (text, shown) in [
            ("slurm-wlm 22.05.8\n", "22.05.8"),
            ("slurm 24.11.5-0rc1", "24.11.5"),
            ("26.05.10", "26.05.10"),
        ] {
            assert_eq!(Version::parse(text).unwrap().to_string(), shown);
        }
        assert_eq!(Version::parse("slurm-wlm"), None);
        assert_eq!(Version::parse("slurm 22.05"), None);
        assert!(Version::parse("slurm 24.11.5").unwrap().at_least(24, 11));
        assert!(!Version::parse("slurm 22.05.8").unwrap().at_least(24, 11));
    }
}
