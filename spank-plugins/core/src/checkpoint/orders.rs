//! What the plugin tells the relay, as words of its command line.

use std::fmt::Write as _;

use sgpu_config::Scope;
use sgpu_config::request::{self, Request};

/// What a relay has to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Orders {
    /// What the job asked for.
    pub request: Request,
    /// When the job ends, in seconds since 1970; `None`: not known.
    pub end_unix: Option<u64>,
    /// The file that tells of the signal.
    pub file: Option<String>,
    /// The task runs already, as this child of the process that becomes the relay.
    pub child: Option<i32>,
    /// The descriptor that `sgpu-ckpt serve` lives as long as.
    pub lifeline: Option<i32>,
}

/// The word behind which the task's own command stands.
pub const END: &str = "--";

impl Orders {
    /// The words, without the relay's own name and [`END`].
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let Request {
            signal,
            forward,
            before_seconds,
            scope,
            ..
        } = self.request;
        let scope = match scope {
            Scope::Leader => "leader",
            Scope::Tree => "tree",
        };
        let mut value = format!("{signal}@{before_seconds}");
        if forward != signal {
            let _ = write!(value, ",forward={forward}");
        }
        let _ = write!(value, ",scope={scope}");
        let mut words = vec![format!("signal={value}")];
        words.extend(self.end_unix.map(|end| format!("end={end}")));
        words.extend(self.file.as_ref().map(|file| format!("file={file}")));
        words.extend(self.child.map(|child| format!("child={child}")));
        words.extend(self.lifeline.map(|fd| format!("lifeline={fd}")));
        words
    }

    /// Reads the words up to [`END`].
    ///
    /// # Errors
    /// On a word that no plugin of this version writes.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let (mut request, mut end_unix, mut file) = (None, None, None);
        let (mut child, mut lifeline) = (None, None);
        for word in words {
            let bad = || format!("{word:?} is not understood");
            match word.split_once('=') {
                Some(("signal", value)) => request = request::parse(value)?,
                Some(("end", time)) => end_unix = Some(time.parse().map_err(|_| bad())?),
                Some(("file", path)) => file = Some(path.to_owned()),
                Some(("child", pid)) => child = Some(pid.parse().map_err(|_| bad())?),
                Some(("lifeline", fd)) => lifeline = Some(fd.parse().map_err(|_| bad())?),
                _ => return Err(bad()),
            }
        }
        let request = request.ok_or("no signal=")?;
        Ok(Self {
            request: Request {
                file: file.is_some(),
                ..request
            },
            end_unix,
            file,
            child,
            lifeline,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_reads_what_a_plugin_writes() {
        let orders = Orders {
            request: request::parse("USR1@120,forward=USR2,file,scope=tree")
                .unwrap()
                .unwrap(),
            end_unix: Some(1_800_000_000),
            file: Some("/tmp/a=b/flag".into()),
            child: Some(77),
            lifeline: Some(9),
        };
        let words = orders.words();
        assert_eq!(
            words,
            [
                "signal=USR1@120,forward=USR2,scope=tree",
                "end=1800000000",
                "file=/tmp/a=b/flag",
                "child=77",
                "lifeline=9"
            ]
        );
        assert_eq!(Orders::parse(words.iter().map(String::as_str)), Ok(orders));
        let plain = Orders::parse(["signal=TERM@5,scope=leader"]).unwrap();
        assert_eq!(plain.words(), ["signal=TERM@5,scope=leader"]);
    }

    #[test]
    fn other_words_are_refused() {
        for words in [
            &[][..],
            &["end=5"],
            &["signal=off"],
            &["signal=USR1", "end=x"],
            &["signal=USR1", "colour=red"],
            &["signal=USR1", "child="],
        ] {
            assert!(Orders::parse(words.iter().copied()).is_err(), "{words:?}");
        }
    }
}
