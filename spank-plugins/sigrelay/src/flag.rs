//! The file that tells of the signal, for programs that would rather look than be interrupted.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// The file, alone in a folder that the plugin has made for the task and that only the user may enter.
#[derive(Debug)]
pub(crate) struct Flag(PathBuf);

impl Flag {
    pub(crate) fn new(path: &str) -> Self {
        Self(path.into())
    }

    /// Makes the file; one that is there stays. What lies there in its place, a link among it, is not opened.
    pub(crate) fn raise(&self) {
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.0);
        if let Err(error) = made
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            eprintln!("sgpu-sigrelay: {}: {error}", self.0.display());
        }
    }

    /// Removes file and folder; a folder with something else in it stays.
    pub(crate) fn remove(&self) {
        drop(fs::remove_file(&self.0));
        if let Some(folder) = self.0.parent() {
            drop(fs::remove_dir(folder));
        }
    }
}
