//! What can go wrong with a scenario.

use std::path::PathBuf;

/// A scenario that cannot be read, understood or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be opened, read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not TOML, or has a key or a value that a scenario does not know.
    #[error("{origin}:{line}:{column}: {message}")]
    Parse {
        /// File or board that the text came from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The parser's message with the offending line.
        message: String,
    },
    /// The text is well formed but does not make sense.
    #[error("{origin}: {key}: {message}")]
    Invalid {
        /// File or board that the text came from.
        origin: String,
        /// Dotted key, for example `device[3].mig[0].profile`.
        key: String,
        /// What is wrong with it.
        message: String,
    },
}

impl Error {
    pub(crate) fn invalid(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid {
            origin: "scenario".into(),
            key: key.into(),
            message: message.into(),
        }
    }

    /// The same error, told of another file.
    pub(crate) fn of(self, place: &str) -> Self {
        match self {
            Self::Invalid { key, message, .. } => Self::Invalid {
                origin: place.into(),
                key,
                message,
            },
            Self::Parse {
                line,
                column,
                message,
                ..
            } => Self::Parse {
                origin: place.into(),
                line,
                column,
                message,
            },
            Self::File { .. } => self,
        }
    }

    pub(crate) fn parse(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = text.get(..start).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .map_or(0, |tail| tail.chars().count())
            + 1;
        let shown = text.lines().nth(line - 1).unwrap_or("").trim();
        let message = format!("{} in `{shown}`", error.message().trim());
        Self::Parse {
            origin: "scenario".into(),
            line,
            column,
            message,
        }
    }
}
