//! The Slurm releases that sgpu knows, and the Debian suite that brings each.
//!
//! The micro number is never written here: it is read from the root.

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;

/// How far a release is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    /// Everything: plugins over internal headers too.
    Full,
    /// What needs the public headers only; the rest where the source can be had.
    PublicApi,
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

/// The command line's parser for a release.
pub(crate) fn parser() -> impl TypedValueParser<Value = &'static Release> {
    PossibleValuesParser::new(RELEASES.iter().map(|release| release.name)).try_map(|name| {
        RELEASES
            .iter()
            .find(|release| release.name == name)
            .ok_or("no such release")
    })
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
    fn a_release_named_twice_is_taken_once_and_in_order() {
        let [old, _, new] = &RELEASES;
        let names: Vec<_> = chosen(&[new, old, new])
            .iter()
            .map(|release| release.name)
            .collect();
        assert_eq!(names, ["22.05", "26.05"]);
    }
}
