//! What was asked: the user's options, plugstack.conf's arguments, sgpu.toml's `[bind]`, and which of them
//! counts.

use std::path::PathBuf;
use std::str::FromStr;

use sgpu_config::{Bind, BindMode, MemoryPolicy};

/// The value of `--gpu-numa-bind`: words with commas between, a mode or `verbose`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindOption {
    /// The mode, when it names one.
    pub mode: Option<BindMode>,
    /// Whether it says `verbose`.
    pub verbose: bool,
}

impl FromStr for BindOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut option = Self::default();
        for word in text.split(',').filter(|_| !text.is_empty()) {
            if word == "verbose" {
                option.verbose = true;
                continue;
            }
            let mode: BindMode = word
                .parse()
                .map_err(|_| format!("{word:?} is none of closest, node, socket, off, verbose"))?;
            if option.mode.replace(mode).is_some_and(|other| other != mode) {
                return Err(format!("{text:?} names two modes"));
            }
        }
        Ok(option)
    }
}

/// The words behind the plugin in plugstack.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// What they say over sgpu.toml.
    pub bind: Bind,
    /// Where sgpu.toml is, when it is not in its usual place.
    pub config: Option<PathBuf>,
    /// What is wrong with some of them, which are left out.
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
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word:?} is no key=value"))?;
        let wrong = |why: String| format!("{key}: {why}");
        match key {
            "mode" => self.bind.mode = Some(value.parse().map_err(wrong)?),
            "memory" => self.bind.memory = Some(value.parse().map_err(wrong)?),
            "respect_cpu_bind" => self.bind.respect_cpu_bind = Some(truth(value).map_err(wrong)?),
            "network" => self.bind.network = Some(truth(value).map_err(wrong)?),
            "verbose" => self.bind.verbose = Some(truth(value).map_err(wrong)?),
            "config" => self.config = Some(value.into()),
            _ => {
                return Err(format!(
                    "{key:?} is none of mode, memory, respect_cpu_bind, network, verbose, config"
                ));
            }
        }
        Ok(())
    }
}

fn truth(word: &str) -> Result<bool, String> {
    match word {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err(format!("{word:?} is none of yes, no, true, false")),
    }
}

/// What counts for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which CPUs.
    pub mode: BindMode,
    /// Which memory.
    pub memory: MemoryPolicy,
    /// Whether to stand aside when the user binds CPUs or memory.
    pub respect_cpu_bind: bool,
    /// Whether to name network devices.
    pub network: bool,
    /// Whether each task is told what was done.
    pub verbose: bool,
    /// Whether the user asked, and so waits to hear why nothing was done.
    pub asked: bool,
}

impl Settings {
    /// `site` is sgpu.toml with plugstack.conf over it, `option` and `memory` are the user's. Without a word
    /// from anybody nothing is bound. A user who asks without naming a mode gets the site's, or `closest`
    /// where that is `off`; so does one who asks for memory alone.
    #[must_use]
    pub fn new(site: &Bind, option: Option<BindOption>, memory: Option<MemoryPolicy>) -> Self {
        let asked = option.is_some() || memory.is_some_and(|memory| memory != MemoryPolicy::Off);
        let site_mode = site.mode.unwrap_or(BindMode::Off);
        let mode = match option.and_then(|option| option.mode) {
            Some(mode) => mode,
            None if asked && site_mode == BindMode::Off => BindMode::Closest,
            None => site_mode,
        };
        Self {
            mode,
            memory: memory.or(site.memory).unwrap_or(MemoryPolicy::Local),
            respect_cpu_bind: site.respect_cpu_bind.unwrap_or(true),
            network: site.network.unwrap_or(false),
            verbose: option.is_some_and(|option| option.verbose) || site.verbose.unwrap_or(false),
            asked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(text: &str) -> Option<BindOption> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn values_of_the_option() {
        let read = |text: &str| {
            text.parse::<BindOption>()
                .map(|option| (option.mode, option.verbose))
        };
        assert_eq!(read(""), Ok((None, false)));
        assert_eq!(read("node"), Ok((Some(BindMode::Node), false)));
        assert_eq!(read("verbose"), Ok((None, true)));
        assert_eq!(read("socket,verbose"), Ok((Some(BindMode::Socket), true)));
        assert_eq!(read("verbose,off"), Ok((Some(BindMode::Off), true)));
        for (text, word) in [
            ("nearest", "nearest"),
            ("closest,", "closest"),
            ("node,socket", "two modes"),
            ("Closest", "Closest"),
        ] {
            assert!(read(text).unwrap_err().contains(word), "{text}");
        }
    }

    #[test]
    fn arguments_of_plugstack() {
        let words: Vec<String> = [
            "mode=node",
            "memory=bind",
            "respect_cpu_bind=no",
            "network=yes",
            "config=/opt/sgpu.toml",
            "colour=red",
            "verbose",
            "verbose=maybe",
        ]
        .map(str::to_owned)
        .to_vec();
        let arguments = Arguments::parse(&words);
        assert_eq!(
            arguments.bind,
            Bind {
                mode: Some(BindMode::Node),
                memory: Some(MemoryPolicy::Bind),
                respect_cpu_bind: Some(false),
                network: Some(true),
                verbose: None,
            }
        );
        assert_eq!(arguments.config, Some("/opt/sgpu.toml".into()));
        assert_eq!(arguments.faults.len(), 3, "{:?}", arguments.faults);
        assert!(arguments.faults[0].contains("colour"));
        assert!(arguments.faults[1].contains("\"verbose\" is no key=value"));
        assert!(arguments.faults[2].starts_with("verbose: \"maybe\""));
    }

    #[test]
    fn who_wins() {
        let silent = Bind::default();
        let nobody = Settings::new(&silent, None, None);
        assert_eq!(
            (nobody.mode, nobody.memory, nobody.respect_cpu_bind),
            (BindMode::Off, MemoryPolicy::Local, true)
        );
        assert!(!nobody.asked && !nobody.network && !nobody.verbose);

        let site = Bind {
            mode: Some(BindMode::Node),
            memory: Some(MemoryPolicy::Preferred),
            verbose: Some(true),
            ..Bind::default()
        };
        let default = Settings::new(&site, None, None);
        assert_eq!(
            (default.mode, default.memory, default.asked),
            (BindMode::Node, MemoryPolicy::Preferred, false)
        );
        assert!(default.verbose);
        let user = Settings::new(&site, option("socket"), Some(MemoryPolicy::Bind));
        assert_eq!(
            (user.mode, user.memory, user.asked),
            (BindMode::Socket, MemoryPolicy::Bind, true)
        );
        assert_eq!(Settings::new(&site, option(""), None).mode, BindMode::Node);
        assert_eq!(
            Settings::new(&site, option("off"), None).mode,
            BindMode::Off
        );
        assert_eq!(
            Settings::new(&silent, option("verbose"), None).mode,
            BindMode::Closest
        );
        let memory = |policy| Settings::new(&silent, None, Some(policy)).mode;
        assert_eq!(memory(MemoryPolicy::Preferred), BindMode::Closest);
        assert_eq!(memory(MemoryPolicy::Off), BindMode::Off);
    }
}
