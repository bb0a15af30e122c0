//! sgpu's configuration: `/etc/slurm/sgpu.toml`, one section a part.
//!
//! ```toml
//! [env]
//! profile = "auto"
//!
//! [[class]]                  # what is different on some nodes
//! nodes = "gpu[01-16]"
//! env.set.NCCL_SOCKET_IFNAME = "ib0"
//! ```
//!
//! A key that is not known is refused by name and line. Each section keeps what the file leaves open as
//! `None`, so that a class, plugstack.conf and the user can say the rest; the part itself has the defaults.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod checked;
mod faults;
pub mod request;
mod sched;
mod signal;
mod spank;

use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use slurm_text::hostlist;

pub use faults::faults;
pub use sched::{Mode, Preempt, SiteFactor, Weights};
pub use signal::Signal;
pub use spank::{Bind, BindMode, Checkpoint, Env, MemoryPolicy, Profile, Scope};

/// Where the file is.
pub const DEFAULT_PATH: &str = "/etc/slurm/sgpu.toml";

/// The sections, for one node or for all.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Sections {
    /// Tasks beside their GPUs.
    pub bind: Bind,
    /// The environment of distributed training.
    pub env: Env,
    /// Signals before a job is stopped.
    pub checkpoint: Checkpoint,
    /// The site's part of the priority; the same for all nodes.
    pub site_factor: SiteFactor,
    /// Whom a job may push out; the same for all nodes.
    pub preempt: Preempt,
}

/// The file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
struct File {
    bind: Bind,
    env: Env,
    checkpoint: Checkpoint,
    site_factor: SiteFactor,
    preempt: Preempt,
    class: Vec<Class>,
}

/// What is different on some nodes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Class {
    /// A host list.
    #[serde(deserialize_with = "checked::nodes")]
    nodes: String,
    #[serde(default)]
    bind: Bind,
    #[serde(default)]
    env: Env,
    #[serde(default)]
    checkpoint: Checkpoint,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// In what way.
        source: std::io::Error,
    },
    /// It says what cannot be.
    #[error("{}: {what}", path.display())]
    Wrong {
        /// Which.
        path: PathBuf,
        /// Line, key and what is wrong.
        what: String,
    },
}

/// More than any site writes.
const LONGEST_BYTES: u64 = 1 << 20;

/// A file of the site's.
///
/// # Errors
/// It cannot be read, is a pipe, or has no end.
pub fn text(path: &Path) -> std::io::Result<String> {
    if std::fs::metadata(path)?.file_type().is_fifo() {
        return Err(std::io::Error::other("it is a pipe"));
    }
    let mut text = String::new();
    let most = LONGEST_BYTES.saturating_add(1);
    let read = std::fs::File::open(path)?
        .take(most)
        .read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read == most) {
        return Err(std::io::Error::other(format!(
            "it is longer than {LONGEST_BYTES} bytes"
        )));
    }
    Ok(text)
}

/// Reads the sections for a node. Where the file usually is there may be none, which says nothing.
///
/// # Errors
/// The file cannot be read or says what cannot be.
pub fn read(path: &Path, node: &str) -> Result<Sections, ConfigError> {
    match text(path) {
        Ok(text) => parse(&text, node).map_err(|what| ConfigError::Wrong {
            path: path.to_owned(),
            what,
        }),
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && path == Path::new(DEFAULT_PATH) =>
        {
            Ok(Sections::default())
        }
        Err(source) => Err(ConfigError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

/// The sections for a node: the file's own, and what the classes that the node is in say over them, the
/// last one winning.
///
/// # Errors
/// In words that name line and key.
pub fn parse(text: &str, node: &str) -> Result<Sections, String> {
    let file: File = toml::from_str(text).map_err(|error| in_one_line(text, &error))?;
    let mut sections = Sections {
        bind: file.bind,
        env: file.env,
        checkpoint: file.checkpoint,
        site_factor: file.site_factor,
        preempt: file.preempt,
    };
    for class in file.class {
        // The list was read before.
        if hostlist::contains(&class.nodes, node).unwrap_or(false) {
            sections = Sections {
                bind: class.bind.over(sections.bind),
                env: class.env.over(sections.env),
                checkpoint: class.checkpoint.over(sections.checkpoint),
                ..sections
            };
        }
    }
    Ok(sections)
}

/// `line 3: unknown field ...`, for logs that take one line.
fn in_one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim().replace('\n', " ");
    match error.span() {
        Some(span) => format!("line {}: {message}", line_of(text, span.start)),
        None => message,
    }
}

/// The line that a byte is in, from 1 on.
fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    before
        .filter(|byte| **byte == b'\n')
        .count()
        .saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_say_what_is_different() {
        let text = r#"
            [env]
            profile = "auto"
            port_range = [50000, 50999]
            set = { NCCL_DEBUG = "WARN", NCCL_SOCKET_IFNAME = "eth0" }

            [bind]
            mode = "closest"

            [[class]]
            nodes = "gpu[01-16]"
            env.set.NCCL_SOCKET_IFNAME = "ib0"
            bind.mode = "node"

            [[class]]
            nodes = "gpu16,login"
            env.profile = "off"
        "#;
        let first = parse(text, "gpu07").unwrap();
        assert_eq!(first.env.profile, Some(Profile::Auto));
        assert_eq!(first.env.port_range, Some((50_000, 50_999)));
        assert_eq!(first.env.set["NCCL_SOCKET_IFNAME"], "ib0");
        assert_eq!(first.env.set["NCCL_DEBUG"], "WARN");
        assert_eq!(first.bind.mode, Some(BindMode::Node));
        let last = parse(text, "gpu16").unwrap();
        assert_eq!(last.env.profile, Some(Profile::Off));
        assert_eq!(last.bind.mode, Some(BindMode::Node));
        let other = parse(text, "cpu1").unwrap();
        assert_eq!(other.env.set["NCCL_SOCKET_IFNAME"], "eth0");
        assert_eq!(other.bind.mode, Some(BindMode::Closest));
        assert_eq!(parse("", "x").unwrap(), Sections::default());
    }

    #[test]
    fn errors_name_line_and_key() {
        for (text, words) in [
            ("[env]\nprofil = \"auto\"\n", &["line 2", "profil"][..]),
            (
                "[bind]\nmode = \"nearest\"\n",
                &["line 2", "nearest", "closest"],
            ),
            ("[evn]\n", &["line 1", "evn"]),
            (
                "[[class]]\nnodes = \"n[1\"\n",
                &["line 2", "n[1", "brackets"],
            ),
            ("[[class]]\nenv.profile = \"off\"\n", &["nodes"]),
            (
                "[env]\nport_range = [5000, 4000]\n",
                &["line 2", "port_range", "4000"],
            ),
            ("[env]\nport_range = [0, 4000]\n", &["port_range", "0"]),
            ("[env]\nset = { \"A=B\" = \"x\" }\n", &["set", "A=B"]),
        ] {
            let error = parse(text, "n1").unwrap_err();
            for word in words {
                assert!(error.contains(word), "{word:?} is not in {error}");
            }
        }
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        let none = read(Path::new("/nonexistent/sgpu.toml"), "n1").unwrap_err();
        assert!(none.to_string().contains("No such file"), "{none}");
        let folder = read(Path::new("/"), "n1").unwrap_err();
        assert!(folder.to_string().starts_with("/: "), "{folder}");
        let endless = read(Path::new("/dev/zero"), "n1").unwrap_err();
        assert!(endless.to_string().contains("longer than"), "{endless}");
    }

    #[test]
    fn the_file_and_the_command_line_have_the_same_words() {
        for (word, mode) in [
            ("closest", BindMode::Closest),
            ("node", BindMode::Node),
            ("socket", BindMode::Socket),
            ("off", BindMode::Off),
        ] {
            let file = parse(&format!("[bind]\nmode = \"{word}\"\n"), "n1").unwrap();
            assert_eq!(file.bind.mode, Some(mode));
            assert_eq!(word.parse(), Ok(mode));
            assert_eq!(mode.to_string(), word);
        }
        for (word, memory) in [
            ("local", MemoryPolicy::Local),
            ("preferred", MemoryPolicy::Preferred),
            ("bind", MemoryPolicy::Bind),
            ("off", MemoryPolicy::Off),
        ] {
            let file = parse(&format!("[bind]\nmemory = \"{word}\"\n"), "n1").unwrap();
            assert_eq!(file.bind.memory, Some(memory));
            assert_eq!(word.parse(), Ok(memory));
            assert_eq!(memory.to_string(), word);
        }
        let wrong = "nearest".parse::<BindMode>().unwrap_err();
        assert!(wrong.contains("nearest") && wrong.contains("closest"));
        assert!("interleave".parse::<MemoryPolicy>().is_err());
    }
}
