//! What can go wrong, by what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};

/// The harness' result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the harness.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that `cargo xtask setup` makes is not there.
    #[error("{0}: run `cargo xtask setup`")]
    NotSetUp(String),
    /// Namespaces and mounts need root.
    #[error("a cluster needs root (namespaces, mounts, device nodes): run the tests as root")]
    NotRoot,
    /// The builder was given something that cannot be had.
    #[error("{0}")]
    Unusable(String),
    /// A file could not be read or written.
    #[error("{action} {}: {source}", .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The namespaces or their mounts could not be made.
    #[error("namespaces of cluster {id}: {what}")]
    Cage {
        /// The cluster's id.
        id: String,
        /// What happened, with the end of the cage's log.
        what: String,
    },
    /// A program inside could not be started or ended badly.
    #[error("{0}")]
    Program(String),
    /// A condition was not met within its deadline.
    #[error("waited {waited:.1} s for {what}\nlast seen: {seen}\n{logs}")]
    Deadline {
        /// What was awaited.
        what: String,
        /// For how many seconds.
        waited: f64,
        /// What the last look showed.
        seen: String,
        /// Ends of the daemons' logs.
        logs: String,
    },
    /// The cluster ended, but not as it should.
    #[error("{0}")]
    Teardown(crate::Report),
}

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            action,
            path: path.to_path_buf(),
            source,
        }
    }
}
