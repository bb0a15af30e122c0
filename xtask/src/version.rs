//! Slurm's version numbers, as Debian, `META`, `slurm_version.h` and plugins write them.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A full Slurm version; internal headers serve exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u8,
    minor: u8,
    micro: u8,
}

impl Version {
    /// From `22.05.8`, with whatever follows (`-rc1`, `+ds`) left out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let end = text
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .unwrap_or(text.len());
        let mut parts = text.get(..end)?.split('.').map(str::parse::<u8>);
        let mut next = || parts.next()?.ok();
        Some(Self {
            major: next()?,
            minor: next()?,
            micro: next()?,
        })
    }

    /// From a Debian package's version (`1:24.11.5-4+deb13u1`).
    pub(crate) fn of_package(version: &str) -> Option<Self> {
        Self::parse(version.split_once(':').map_or(version, |(_, rest)| rest))
    }

    /// From SLURM_VERSION_NUMBER, the number in every plugin's `plugin_version`.
    pub(crate) fn of_number(number: u32) -> Self {
        let [_, major, minor, micro] = number.to_be_bytes();
        Self {
            major,
            minor,
            micro,
        }
    }

    /// Whether this is of the release `22.05`.
    pub(crate) fn is_of(self, release: &str) -> bool {
        format!("{}.{:02}", self.major, self.minor) == release
    }

    /// Whether this release or a later one.
    pub(crate) fn at_least(self, major: u8, minor: u8) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    /// From a source tree's `META`.
    pub(crate) fn of_source(src: &Path) -> Result<Self> {
        let path = src.join("META");
        let text = fs::read_to_string(&path).with_context(|| {
            format!(
                "{} is not a Slurm source tree: cannot read META in it",
                src.display()
            )
        })?;
        of_meta(&text).with_context(|| format!("{} names no version", path.display()))
    }

    /// From installed public headers (`<include>/slurm/slurm_version.h`).
    pub(crate) fn of_headers(include: &Path) -> Result<Self> {
        let path = include.join("slurm/slurm_version.h");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        of_version_h(&text)
            .with_context(|| format!("{} has no SLURM_VERSION_NUMBER", path.display()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}.{}", self.major, self.minor, self.micro)
    }
}

/// `META`: `Version: 22.05.8`, or `Major:`, `Minor:` and `Micro:`.
fn of_meta(text: &str) -> Option<Version> {
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    if let Some(version) = field("Version").and_then(Version::parse) {
        return Some(version);
    }
    Some(Version {
        major: field("Major")?.parse().ok()?,
        minor: field("Minor")?.parse().ok()?,
        micro: field("Micro")?.parse().ok()?,
    })
}

/// `#define SLURM_VERSION_NUMBER 0x160508`.
fn of_version_h(text: &str) -> Option<Version> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == "#define" && words.next()? == "SLURM_VERSION_NUMBER").then_some(())?;
        let hex = words.next()?.strip_prefix("0x")?;
        u32::from_str_radix(hex, 16).ok().map(Version::of_number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_versions_are_read() {
        for (text, shown) in [
            ("22.05.8-4+deb12u3", "22.05.8"),
            ("24.11.5-4", "24.11.5"),
            ("1:26.05.10+ds-1~exp1", "26.05.10"),
            ("25.11.0~rc1-1", "25.11.0"),
        ] {
            assert_eq!(Version::of_package(text).unwrap().to_string(), shown);
        }
        assert_eq!(Version::of_package("22.05"), None);
        assert_eq!(Version::of_package("300.1.1"), None);
        assert_eq!(Version::of_package("é"), None);
    }

    #[test]
    fn versions_compare_by_number() {
        let parse = |text| Version::parse(text).unwrap();
        assert!(parse("24.11.10") > parse("24.11.9"));
        assert!(parse("24.11.0") > parse("24.05.9"));
        assert!(parse("24.11.5").at_least(24, 11));
        assert!(!parse("22.05.8").at_least(24, 11));
        assert!(parse("22.05.8").is_of("22.05"));
        assert!(!parse("22.05.8").is_of("22.5"));
    }

    #[test]
    fn meta_and_headers_agree() {
        let meta = "  Api_age:\t0\n  Major:\t22\n  Meta:\t\t1\n  Micro:\t8\n  Minor:\t05\n  \
                    Name:\t\tslurm\n  Release:\t1\n  Version:\t22.05.8\n";
        let from_meta = of_meta(meta).unwrap();
        assert_eq!(from_meta.to_string(), "22.05.8");
        assert_eq!(of_meta("Major: 22\nMinor: 05\nMicro: 8\n"), Some(from_meta));
        let header = "/* Define the API's version */\n#define SLURM_API_VERSION 0x260000\n\n\
                      #define SLURM_VERSION_NUMBER 0x160508\n";
        assert_eq!(of_version_h(header), Some(from_meta));
        assert_eq!(of_meta("Name: slurm"), None);
        assert_eq!(of_version_h("#define SLURM_VERSION_NUMBER later"), None);
    }
}
