//! The Slurm releases that sgpu knows, and the Debian suite that brings each.
//!
//! The micro number is never written here: it is read from the root.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;

use crate::paths::Paths;
use crate::rootfs::Root;
use crate::version::Version;

/// How far a release is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    /// Everything: plugins over internal headers too.
    Full,
    /// What needs the public headers only, the SPANK plugins; the rest where the source can be had.
    PublicApi,
}

impl Support {
    /// What works there, for a person.
    fn says(self) -> &'static str {
        match self {
            Self::Full => "everything",
            Self::PublicApi => {
                "setup, the SPANK plugins and their tests; other plugins need a source tree of your \
                 own (`cargo xtask build --slurm-src`), and demo and bench do not run"
            }
        }
    }
}

/// A Slurm release.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Release {
    /// Slurm's name for it.
    pub(crate) name: &'static str,
    /// The Debian suite that has it.
    pub(crate) suite: &'static str,
    /// debootstrap's script for that suite, where an older debootstrap knows none by its name.
    pub(crate) script: Option<&'static str>,
    /// Whether the suite is released: only then it has `-updates` and `-security` beside it.
    pub(crate) stable: bool,
    /// How far sgpu supports it.
    pub(crate) support: Support,
}

impl Release {
    /// Its Debian, as people call it.
    fn debian(&self) -> String {
        let testing = if self.stable { "" } else { " (testing)" };
        format!("Debian {}{testing}", self.suite)
    }
}

/// All releases, oldest first.
pub(crate) const RELEASES: [Release; 3] = [
    Release {
        name: "22.05",
        suite: "bookworm",
        script: None,
        stable: true,
        support: Support::Full,
    },
    Release {
        name: "24.11",
        suite: "trixie",
        script: Some("sid"),
        stable: true,
        support: Support::Full,
    },
    Release {
        name: "26.05",
        suite: "forky",
        script: Some("sid"),
        stable: false,
        support: Support::PublicApi,
    },
];

/// The releases with full support: what commands take when none is named.
pub(crate) fn fully_supported() -> Vec<&'static Release> {
    RELEASES
        .iter()
        .filter(|release| release.support == Support::Full)
        .collect()
}

/// What a command was asked for, or the fully supported ones; each once, oldest first.
pub(crate) fn chosen(asked: &[&'static Release]) -> Vec<&'static Release> {
    if asked.is_empty() {
        return fully_supported();
    }
    RELEASES
        .iter()
        .filter(|release| asked.contains(release))
        .collect()
}

/// What tests were asked for, or all: those of SPANK plugins run on each release.
pub(crate) fn tested(asked: &[&'static Release]) -> Vec<&'static Release> {
    if asked.is_empty() {
        return RELEASES.iter().collect();
    }
    chosen(asked)
}

/// The command line's parser for a release: its name, or the full version of its root.
pub(crate) fn parser() -> impl TypedValueParser<Value = &'static Release> {
    Parser
}

#[derive(Clone, Debug)]
struct Parser;

impl TypedValueParser for Parser {
    type Value = &'static Release;

    fn parse_ref(
        &self,
        cmd: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let text = StringValueParser::new().parse_ref(cmd, arg, value)?;
        let root = |release: &Release| Root::find(&Paths::find().ok()?, release);
        named(&text, |release| root(release).map(|root| root.slurm)).map_err(|why| {
            clap::Error::raw(ErrorKind::InvalidValue, format!("{why}\n")).with_cmd(cmd)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |release: &Release| {
            PossibleValue::new(release.name).help(format!(
                "{}: {}",
                release.debian(),
                release.support.says()
            ))
        };
        Some(Box::new(RELEASES.iter().map(value)))
    }
}

/// The release that a text names: `24.11`, or the full version that `root` gives for it.
fn named(
    text: &str,
    root: impl Fn(&Release) -> Option<Version>,
) -> Result<&'static Release, String> {
    if let Some(release) = RELEASES.iter().find(|release| release.name == text) {
        return Ok(release);
    }
    let version = Version::parse(text).filter(|version| version.to_string() == text);
    let of = |version: Version| RELEASES.iter().find(|release| version.is_of(release.name));
    let Some((version, release)) = version.and_then(|version| Some((version, of(version)?))) else {
        let names: Vec<_> = RELEASES.iter().map(|release| release.name).collect();
        return Err(format!(
            "{text} is no Slurm release that sgpu knows: it knows {}. For another, \
             cargo xtask build --slurm-src <source tree>",
            names.join(", ")
        ));
    };
    match root(release) {
        Some(here) if here == version => Ok(release),
        Some(here) => Err(format!(
            "Debian {} has Slurm {here}, not {version}: say --slurm {}, or build for {version} with \
             cargo xtask build --slurm-src <source tree of {version}>",
            release.suite, release.name
        )),
        None => Err(format!(
            "which Slurm {} Debian {} has shows once `cargo xtask setup --slurm {}` has made its root: \
             say --slurm {}",
            release.name, release.suite, release.name, release.name
        )),
    }
}

/// Stops a command that needs everything on a release that has not got it.
pub(crate) fn fully(release: &Release, what: &str) -> anyhow::Result<()> {
    if release.support != Support::Full {
        let names: Vec<_> = fully_supported().iter().map(|full| full.name).collect();
        anyhow::bail!(
            "{what} runs on Slurm {}, not on {}. What works on {}: {}",
            names.join(" and "),
            release.name,
            release.name,
            release.support.says()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_what_is_fully_supported() {
        let names: Vec<_> = chosen(&[]).iter().map(|release| release.name).collect();
        assert_eq!(names, ["22.05", "24.11"]);
    }

    #[test]
    fn tests_run_on_all_releases_unless_some_are_named() {
        assert_eq!(tested(&[]).len(), RELEASES.len());
        let [old, ..] = &RELEASES;
        assert_eq!(tested(&[old]), [old]);
    }

    #[test]
    fn a_release_named_twice_is_taken_once_and_in_order() {
        let [old, _, new] = &RELEASES;
        let names: Vec<_> = chosen(&[new, old, new])
            .iter()
            .map(|release| release.name)
            .collect();
        assert_eq!(names, ["22.05", "26.05"]);
    }

    #[test]
    fn a_full_version_is_taken_where_it_is_the_roots() {
        let root =
            |release: &Release| (release.name == "24.11").then(|| Version::parse("24.11.5"))?;
        let of = |text| named(text, root).map(|release| release.name);
        assert_eq!(of("24.11"), Ok("24.11"));
        assert_eq!(of("26.05"), Ok("26.05"));
        assert_eq!(of("24.11.5"), Ok("24.11"));
        for (text, part) in [
            ("24.11.4", "has Slurm 24.11.5, not 24.11.4"),
            ("22.05.8", "cargo xtask setup --slurm 22.05"),
            ("23.02.1", "it knows 22.05, 24.11, 26.05"),
            ("24.11.5x", "it knows"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }

    #[test]
    fn what_needs_everything_stops_where_not_everything_works() {
        let [old, _, new] = &RELEASES;
        fully(old, "the demo").unwrap();
        let error = fully(new, "the demo").unwrap_err().to_string();
        assert!(error.contains("22.05 and 24.11, not on 26.05"), "{error}");
    }
}
