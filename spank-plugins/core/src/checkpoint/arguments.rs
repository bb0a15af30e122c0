//! The words behind the plugin in plugstack.conf.

use std::path::PathBuf;

use sgpu_config::{Checkpoint, request};

/// What plugstack.conf says: it goes over sgpu.toml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// What it says itself.
    pub checkpoint: Checkpoint,
    /// Where sgpu.toml is, when it is not in its usual place.
    pub config: Option<PathBuf>,
    /// What is wrong with some of the words, which are left out.
    pub faults: Vec<String>,
}

impl Arguments {
    /// Reads `key=value` words.
    #[must_use]
    pub fn parse(words: &[String]) -> Self {
        let mut arguments = Self::default();
        for word in words {
            if let Err(fault) = arguments.take(word) {
                arguments.faults.push(fault);
            }
        }
        arguments
    }

    fn take(&mut self, word: &str) -> Result<(), String> {
        match word.split_once('=') {
            Some(("signal", value)) => {
                let signal = request::parse(value).map_err(|why| format!("signal: {why}"))?;
                self.checkpoint.signal = Some(signal);
            }
            Some(("relay", path)) if path.starts_with('/') => {
                self.checkpoint.relay = Some(path.into());
            }
            Some(("relay", path)) => {
                return Err(format!("relay: {path:?} does not begin with /"));
            }
            Some(("config", path)) => self.config = Some(path.into()),
            Some(("container_marks", value @ ("yes" | "no"))) => {
                self.checkpoint.container_marks = Some(value == "yes");
            }
            Some(("container_marks", value)) => {
                return Err(format!("container_marks: {value:?} is neither yes nor no"));
            }
            _ => {
                return Err(format!(
                    "{word:?} is none of signal=, relay=, container_marks=yes|no, config="
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_wrong_ones_left_out() {
        let words = [
            "signal=USR1@120,file",
            "relay=/opt/relay",
            "config=/opt/sgpu.toml",
            "container_marks=yes",
            "container_marks=maybe",
            "colour=red",
        ]
        .map(str::to_owned);
        let arguments = Arguments::parse(&words);
        assert_eq!(
            arguments.checkpoint,
            Checkpoint {
                signal: Some(request::parse("USR1@120,file").unwrap()),
                relay: Some("/opt/relay".into()),
                mark_every_minimum: None,
                container_marks: Some(true),
            }
        );
        assert_eq!(arguments.config, Some("/opt/sgpu.toml".into()));
        assert_eq!(arguments.faults.len(), 2, "{:?}", arguments.faults);
        let wrong = Arguments::parse(&["signal=KILL".to_owned(), "signal=off".to_owned()]);
        assert!(wrong.faults[0].starts_with("signal: \"KILL\""));
        assert_eq!(wrong.checkpoint.signal, Some(None));
    }
}
