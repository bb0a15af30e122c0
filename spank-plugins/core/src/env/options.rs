//! What the user asks for.

use sgpu_config::Profile;

/// `--dist-env`, `--dist-port` and `--dist-force`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// The profile; `Auto` without a value.
    pub profile: Option<Profile>,
    /// The port.
    pub port: Option<u16>,
    /// Whether what is set already is replaced.
    pub force: bool,
}

const PROFILES: [(&str, Profile); 6] = [
    ("auto", Profile::Auto),
    ("torch", Profile::Torch),
    ("torchrun", Profile::Torchrun),
    ("jax", Profile::Jax),
    ("elastic", Profile::Elastic),
    ("off", Profile::Off),
];

impl Options {
    /// From what was given on the command line, empty texts for options without a value. Values were
    /// checked before; a wrong one counts as not given.
    #[must_use]
    pub fn given(profile: Option<&str>, port: Option<&str>, force: bool) -> Self {
        Self {
            profile: profile.and_then(|text| self::profile(text).ok()),
            port: port.and_then(|text| self::port(text).ok()),
            force,
        }
    }

    /// Whether `--dist-env` may have a value.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn check_profile(value: Option<&str>) -> Result<(), String> {
        profile(value.unwrap_or_default()).map(|_| ())
    }

    /// Whether `--dist-port` may have a value.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn check_port(value: Option<&str>) -> Result<(), String> {
        port(value.unwrap_or_default()).map(|_| ())
    }
}

/// The profile of a name; the empty one is `auto`.
pub(super) fn profile(text: &str) -> Result<Profile, String> {
    if text.is_empty() {
        return Ok(Profile::Auto);
    }
    let found = PROFILES.iter().find(|(name, _)| *name == text);
    found.map(|(_, profile)| *profile).ok_or_else(|| {
        let names = PROFILES.map(|(name, _)| name).join(", ");
        format!("{text:?} is none of {names}")
    })
}

/// The name of a profile.
pub(super) fn name(profile: Profile) -> &'static str {
    PROFILES
        .iter()
        .find(|(_, known)| *known == profile)
        .map_or("", |(name, _)| name)
}

fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{text:?} is no port, a number from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_in_words() {
        for good in [None, Some("auto"), Some("torchrun"), Some("off")] {
            assert_eq!(Options::check_profile(good), Ok(()));
        }
        for bad in ["Torch", "pytorch", " torch"] {
            let why = Options::check_profile(Some(bad)).unwrap_err();
            assert!(
                why.contains(bad) && why.contains("auto, torch, torchrun, jax, elastic, off"),
                "{why}"
            );
        }
        assert_eq!(Options::check_port(Some("65535")), Ok(()));
        for bad in ["0", "65536", "-1", "http", ""] {
            assert!(Options::check_port(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_was_given_is_read() {
        let options = Options::given(Some(""), Some("12345"), true);
        assert_eq!(options.profile, Some(Profile::Auto));
        assert_eq!(options.port, Some(12_345));
        assert!(options.force);
        assert_eq!(Options::given(None, None, false), Options::default());
        assert_eq!(
            Options::given(Some("x"), Some("x"), false),
            Options::default()
        );
    }

    #[test]
    fn each_profile_has_its_name_back() {
        for (text, known) in PROFILES {
            assert_eq!(name(known), text);
            assert_eq!(profile(text), Ok(known));
        }
    }
}
