//! The folder of the flag file: the user's own, closed to others.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The file in the folder.
const FILE: &str = "flag";

/// Makes the folder for a task in `base` and gives the path of the file, which is not there yet. A folder of
/// the same name is taken when it is this user's and closed: an earlier run of the same job left it. One that is
/// another's keeps nobody from a folder: the name is longer then.
pub(crate) fn prepare(base: &Path, task: &str) -> io::Result<PathBuf> {
    let name = format!("sgpu-ckpt-{task}");
    let longer = format!("{name}-{}", std::process::id());
    let folder = make(base.join(name)).or_else(|_| make(base.join(longer)))?;
    let file = folder.join(FILE);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(file),
    }
}

/// Makes a folder, or takes one that is this user's and closed.
fn make(folder: PathBuf) -> io::Result<PathBuf> {
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => own(&folder)?,
        made => made?,
    }
    Ok(folder)
}

fn own(folder: &Path) -> io::Result<()> {
    // Of the thing itself: a link is no folder.
    let found = fs::symlink_metadata(folder)?;
    // SAFETY: takes no argument.
    let user = unsafe { libc::geteuid() };
    if found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(io::Error::other("it is another's, or open to others"))
    }
}
