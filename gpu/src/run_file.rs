//! Small files that a daemon publishes below `/run`: whole or not at all, and never through a link that
//! somebody else laid.

use std::ffi::{OsStr, OsString};
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

/// Writes a file, see [`Folder::write`], in a folder of mode 0755.
///
/// # Errors
/// File or folder fail, or the folder is another user's or open to others.
pub fn write(path: &Path, text: &str) -> Result<(), RunFileError> {
    let (folder, name) = parts(path)?;
    Folder::make(folder, 0o755)?.write(name, text)
}

/// Removes a file; one that is not there is gone too.
///
/// # Errors
/// As for [`write()`].
pub fn remove(path: &Path) -> Result<(), RunFileError> {
    let (folder, name) = parts(path)?;
    match Folder::open(folder)? {
        Some(folder) => folder.remove(name),
        None => Ok(()),
    }
}

fn parts(path: &Path) -> Result<(&Path, &OsStr), RunFileError> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => Ok((Path::new("."), name)),
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(fail(path)(io::ErrorKind::InvalidInput.into())),
    }
}

/// A folder that is ours alone to write in, held open so that nobody swaps it under us.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    opened: File,
}

impl Folder {
    /// Opens a folder, and makes it with a mode when it is missing; the one above must be there. It must be
    /// a real folder, ours, and writable by nobody else.
    ///
    /// # Errors
    /// It cannot be made or opened, is a link, another user's or open to others.
    pub fn make(path: &Path, mode: u32) -> Result<Self, RunFileError> {
        Self::make_at(path, path.to_owned(), mode)
    }

    /// The same within this folder.
    ///
    /// # Errors
    /// As for [`make`](Self::make).
    pub fn make_within(&self, name: &OsStr, mode: u32) -> Result<Self, RunFileError> {
        Self::make_at(&self.inside(name), self.path.join(name), mode)
    }

    /// Opens a folder as [`make`](Self::make) does; `None` when it is missing.
    ///
    /// # Errors
    /// As for [`make`](Self::make).
    pub fn open(path: &Path) -> Result<Option<Self>, RunFileError> {
        Self::open_at(path, path.to_owned())
    }

    /// The same within this folder.
    ///
    /// # Errors
    /// As for [`make`](Self::make).
    pub fn open_within(&self, name: &OsStr) -> Result<Option<Self>, RunFileError> {
        Self::open_at(&self.inside(name), self.path.join(name))
    }

    fn make_at(at: &Path, path: PathBuf, mode: u32) -> Result<Self, RunFileError> {
        let made = match DirBuilder::new().mode(mode).create(at) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(fail(&path)(error)),
        };
        let folder = Self::open_at(at, path.clone())?
            .ok_or_else(|| fail(&path)(io::ErrorKind::NotFound.into()))?;
        if made {
            // Whatever the umask is.
            let mode = Permissions::from_mode(mode);
            folder.opened.set_permissions(mode).map_err(fail(&path))?;
        }
        Ok(folder)
    }

    fn open_at(at: &Path, path: PathBuf) -> Result<Option<Self>, RunFileError> {
        let refuse = |what| RunFileError::Unsafe {
            path: path.clone(),
            what,
        };
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(at);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(refuse("a symbolic link or a file, not a folder"));
            }
            Err(error) => return Err(fail(&path)(error)),
        };
        let about = opened.metadata().map_err(fail(&path))?;
        if about.mode() & 0o022 != 0 {
            return Err(refuse("writable by others than its owner"));
        }
        if about.uid() != nix::unistd::geteuid().as_raw() {
            return Err(refuse("belongs to another user"));
        }
        Ok(Some(Self { path, opened }))
    }

    /// Writes a file: a new one of mode 0644, renamed over the old one, so that a reader sees the old text
    /// or the new one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &OsStr, text: &str) -> Result<(), RunFileError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let mut scratch = name.to_owned();
        scratch.push(format!(".{}.{serial}.new", std::process::id()));
        let scratch = self.inside(&scratch);
        let path = self.path.join(name);
        let mut file = create_new(&scratch).map_err(fail(&path))?;
        let written = (|| {
            file.set_permissions(Permissions::from_mode(0o644))?;
            file.write_all(text.as_bytes())?;
            fs::rename(&scratch, self.inside(name))
        })();
        written.map_err(|error| {
            let _ = fs::remove_file(&scratch);
            fail(&path)(error)
        })
    }

    /// Reads a file of it, as [`read`] does.
    ///
    /// # Errors
    /// As for [`read`].
    pub fn read(&self, name: &OsStr, most_bytes: u64) -> Result<String, RunFileError> {
        read(&self.inside(name), most_bytes)
    }

    /// Removes a file; one that is not there is gone too.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, name: &OsStr) -> Result<(), RunFileError> {
        match fs::remove_file(self.inside(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(fail(&self.path.join(name))(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes a folder of it with its files.
    ///
    /// # Errors
    /// As for [`make`](Self::make), or there are folders in it.
    pub fn remove_folder(&self, name: &OsStr) -> Result<(), RunFileError> {
        let Some(folder) = self.open_within(name)? else {
            return Ok(());
        };
        for file in folder.names()? {
            folder.remove(&file)?;
        }
        fs::remove_dir(self.inside(name)).map_err(fail(&folder.path))
    }

    /// What is in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> Result<Vec<OsString>, RunFileError> {
        fs::read_dir(self.inside(OsStr::new(".")))
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
            .map_err(fail(&self.path))
    }

    fn inside(&self, name: &OsStr) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.opened.as_raw_fd())).join(name)
    }
}

fn fail(path: &Path) -> impl FnOnce(io::Error) -> RunFileError + use<> {
    let path = path.to_owned();
    move |source| RunFileError::Io { path, source }
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
        for refused in [
            write(&linked.join("gpus"), "ours"),
            remove(&linked.join("gpus")),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("symbolic link"), "{error}");
        }
        assert!(path.is_file());
    }

    #[test]
    fn folders_within_folders() {
        let root = tempfile::tempdir().unwrap();
        let jobs = Folder::make(&root.path().join("jobs"), 0o700).unwrap();
        let job = jobs.make_within(OsStr::new("7"), 0o700).unwrap();
        job.write(OsStr::new("0"), "x").unwrap();
        assert_eq!(job.read(OsStr::new("0"), MOST).unwrap(), "x");
        assert_eq!(jobs.names().unwrap(), ["7"]);
        assert!(jobs.open_within(OsStr::new("8")).unwrap().is_none());
        jobs.remove_folder(OsStr::new("7")).unwrap();
        jobs.remove_folder(OsStr::new("7")).unwrap();
        assert!(jobs.names().unwrap().is_empty());
        // A link in the place of a folder is not gone through.
        let precious = root.path().join("precious");
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("7"), "x").unwrap();
        std::os::unix::fs::symlink(&precious, root.path().join("jobs/9")).unwrap();
        assert!(jobs.open_within(OsStr::new("9")).is_err());
        assert!(jobs.remove_folder(OsStr::new("9")).is_err());
        assert!(precious.join("7").is_file());
    }

    #[test]
    fn a_fifo_keeps_no_reader() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read(&path, MOST).unwrap(), "");
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
