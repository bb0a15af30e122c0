//! Small files that a daemon publishes below `/run`: whole or not at all, and never through a link that
//! somebody else laid.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// The file or its folder failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// In what way.
        source: io::Error,
    },
    /// The folder is not one to write in.
    #[error("{}: {what}", path.display())]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Reads a file of at most `most_bytes`. A link is not followed.
///
/// # Errors
/// It cannot be read, is larger, or holds no UTF-8.
pub fn read(path: &Path, most_bytes: u64) -> Result<String, RunFileError> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)
        .map_err(fail(path))?;
    let mut text = String::new();
    file.take(most_bytes.saturating_add(1))
        .read_to_string(&mut text)
        .map_err(fail(path))?;
    if text.len() as u64 > most_bytes {
        return Err(fail(path)(io::Error::other("larger than it can be")));
    }
    Ok(text)
}

/// Writes a file: a new one of mode 0644 in the same folder, renamed over the old one, so that a
/// reader sees the old text or the new one. The folder is as [`make_folder`] makes it.
///
/// # Errors
/// File or folder fail, or the folder is another user's or open to others.
pub fn write(path: &Path, text: &str) -> Result<(), RunFileError> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(fail(path)(io::ErrorKind::InvalidInput.into()));
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let folder = make_folder(folder)?;
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut scratch = name.to_owned();
    scratch.push(format!(".{}.{serial}.new", std::process::id()));
    let scratch = folder.inside(&scratch);
    let mut file = create_new(&scratch).map_err(fail(path))?;
    let written = (|| {
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&scratch, folder.inside(name))
    })();
    written.map_err(|error| {
        let _ = fs::remove_file(&scratch);
        fail(path)(error)
    })
}

/// A folder that is ours alone to write in, held open so that nobody swaps it under us.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    opened: File,
}

/// Opens a folder, and makes it (mode 0755) when it is missing; the one above must be there. It must be a
/// real folder, ours, and writable by nobody else.
///
/// # Errors
/// It cannot be made or opened, is a link, another user's or open to others.
pub fn make_folder(path: &Path) -> Result<Folder, RunFileError> {
    let opened = open_folder(path).map_err(fail(path))?;
    let about = opened.metadata().map_err(fail(path))?;
    let refuse = |what| {
        Err(RunFileError::Unsafe {
            path: path.to_owned(),
            what,
        })
    };
    if about.mode() & 0o022 != 0 {
        return refuse("writable by others than its owner");
    }
    if about.uid() != nix::unistd::geteuid().as_raw() {
        return refuse("belongs to another user");
    }
    Ok(Folder {
        path: path.to_owned(),
        opened,
    })
}

impl Folder {
    /// Opens a file for reading and writing; it is made (mode 0644) when it is missing, and must be no link.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_to_change(&self, name: &OsStr) -> Result<File, RunFileError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
            .open(self.inside(name))
            .map_err(fail(&self.path.join(name)))
    }

    fn inside(&self, name: &OsStr) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.opened.as_raw_fd())).join(name)
    }
}

fn fail(path: &Path) -> impl FnOnce(io::Error) -> RunFileError + use<> {
    let path = path.to_owned();
    move |source| RunFileError::Io { path, source }
}

/// Opens a folder that is no link, and makes it when it is missing.
fn open_folder(folder: &Path) -> io::Result<File> {
    let made = match DirBuilder::new().mode(0o755).create(folder) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(folder)?;
    if made {
        // Whatever the umask is.
        opened.set_permissions(Permissions::from_mode(0o755))?;
    }
    Ok(opened)
}

/// A file that was not there before. One left behind by a process of the same number is removed first.
fn create_new(path: &Path) -> io::Result<File> {
    let open = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)
    };
    match open() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            open()
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 100;

    #[test]
    fn writes_and_reads() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("sgpu/gpus");
        write(&path, "first").unwrap();
        write(&path, "second").unwrap();
        assert_eq!(read(&path, MOST).unwrap(), "second");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        let folder = path.parent().unwrap();
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
        assert!(read(&path, 5).unwrap_err().to_string().contains("larger"));
    }

    #[test]
    fn follows_no_link() {
        let root = tempfile::tempdir().unwrap();
        let victim = root.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let folder = root.path().join("sgpu");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("gpus");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(matches!(read(&path, MOST), Err(RunFileError::Io { .. })));
        write(&path, "ours").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(read(&path, MOST).unwrap(), "ours");

        let linked = root.path().join("linked");
        std::os::unix::fs::symlink(&folder, &linked).unwrap();
        assert!(write(&linked.join("gpus"), "ours").is_err());
    }

    #[test]
    fn refuses_a_folder_open_to_others() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sgpu");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let error = write(&folder.join("gpus"), "ours").unwrap_err();
        assert!(matches!(error, RunFileError::Unsafe { .. }), "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn refuses_a_folder_of_another_user() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sgpu");
        fs::create_dir(&folder).unwrap();
        // Only root can give a folder away.
        if std::os::unix::fs::chown(&folder, Some(65534), None).is_err() {
            return;
        }
        let error = write(&folder.join("gpus"), "ours").unwrap_err();
        assert!(error.to_string().contains("another user"), "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}
