//! The node's own files, for a hook that runs in a task: a container plugin in front of ours may have given
//! the task another root by then, without `/sys`, `/proc` or the devices.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;

/// The node's root, held open from before there are tasks; the task's program does not inherit it.
#[derive(Debug)]
pub struct NodeFiles {
    /// `None` where it could not be opened: there the task's own view has to do.
    root: Option<File>,
}

impl NodeFiles {
    /// Holds the root that the calling process has.
    #[must_use]
    pub fn hold() -> Self {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY);
        Self {
            root: options.open("/").ok(),
        }
    }

    /// The text of a file, by its path from the root.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let (folder, path) = self.place(path)?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: openat(2) reads a NUL-terminated string; without O_CREAT it takes no mode.
        let file = unsafe { libc::openat(folder, path.as_ptr(), flags) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it, for nobody else.
        let mut file = unsafe { File::from_raw_fd(file) };
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Whether the control group keeps a device file from this process. access(2) asks it as open(2) does, but
    /// wakes no driver: opening a GPU that nobody uses takes seconds.
    #[must_use]
    pub fn is_denied(&self, path: &str) -> bool {
        let Ok((folder, path)) = self.place(path) else {
            return false;
        };
        // SAFETY: faccessat(2) reads a NUL-terminated string.
        let answer = unsafe { libc::faccessat(folder, path.as_ptr(), libc::R_OK | libc::W_OK, 0) };
        answer != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
    }

    /// The folder that a path is counted from, and the path from there.
    fn place(&self, path: &str) -> io::Result<(RawFd, CString)> {
        let (folder, path) = match &self.root {
            Some(root) => (root.as_raw_fd(), path.trim_start_matches('/')),
            None => (libc::AT_FDCWD, path),
        };
        Ok((folder, CString::new(path)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_their_path_from_the_root() {
        let file = std::env::temp_dir().join(format!("sgpu-node-files-{}", std::process::id()));
        std::fs::write(&file, "text\n").unwrap();
        let path = file.to_str().unwrap();
        for files in [NodeFiles::hold(), NodeFiles { root: None }] {
            assert_eq!(files.read(path).unwrap(), "text\n");
            assert!(files.read("/proc/self/status").unwrap().contains("Pid:"));
            assert!(files.read("/nonexistent").is_err());
            assert!(files.read("/a\0b").is_err());
            assert!(!files.is_denied(path) && !files.is_denied("/nonexistent"));
        }
        std::fs::remove_file(file).unwrap();
    }
}
