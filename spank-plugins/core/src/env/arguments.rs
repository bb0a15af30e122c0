//! The words behind the plugin in plugstack.conf.

use std::path::PathBuf;

use sgpu_config::Env;

use super::options;

/// What plugstack.conf says: it goes over sgpu.toml.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments {
    /// Where sgpu.toml is, when it is not in its usual place.
    pub config: Option<PathBuf>,
    /// What it says itself.
    pub env: Env,
    /// What is wrong with some of the words, which are left out.
    pub faults: Vec<String>,
}

impl Arguments {
    /// Reads `config=PATH`, `profile=NAME` and `port_range=LOW-HIGH`.
    #[must_use]
    pub fn parse(words: &[String]) -> Self {
        let mut arguments = Self::default();
        for word in words {
            if let Err(fault) = arguments.word(word) {
                arguments.faults.push(fault);
            }
        }
        arguments
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        match word.split_once('=') {
            Some(("config", path)) => self.config = Some(path.into()),
            Some(("profile", name)) => {
                let profile = options::profile(name);
                self.env.profile = Some(profile.map_err(|why| format!("profile: {why}"))?);
            }
            Some(("port_range", text)) => {
                let range = range(text).ok_or_else(|| {
                    format!("port_range: {text:?} is no range of ports such as 50000-50999")
                })?;
                self.env.port_range = Some(range);
            }
            _ => {
                return Err(format!(
                    "{word:?} is none of config=, profile= and port_range="
                ));
            }
        }
        Ok(())
    }
}

/// `LOW-HIGH`.
fn range(text: &str) -> Option<(u16, u16)> {
    let (low, high) = text.split_once('-')?;
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (low > 0 && low <= high).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sgpu_config::Profile;

    fn read(words: &[&str]) -> Arguments {
        Arguments::parse(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn words_are_read() {
        let arguments = read(&[
            "config=/etc/sgpu/a=b.toml",
            "profile=jax",
            "port_range=50000-50999",
        ]);
        assert_eq!(arguments.config, Some("/etc/sgpu/a=b.toml".into()));
        assert_eq!(arguments.env.profile, Some(Profile::Jax));
        assert_eq!(arguments.env.port_range, Some((50_000, 50_999)));
        assert_eq!(arguments.faults, [""; 0]);
    }

    #[test]
    fn wrong_words_are_named_and_left_out() {
        for word in [
            "dist_env=auto",
            "profile",
            "profile=best",
            "port_range=5",
            "port_range=9-8",
            "port_range=0-8",
            "port_range=1-65536",
        ] {
            let arguments = read(&[word, "profile=torch"]);
            assert_eq!(arguments.faults.len(), 1, "{word}");
            assert_eq!(arguments.env.profile, Some(Profile::Torch), "{word}");
            assert_eq!(arguments.env.port_range, None, "{word}");
        }
        assert!(read(&["dist_env=auto"]).faults[0].contains("dist_env=auto"));
    }
}
