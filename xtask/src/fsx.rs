//! Files: atomic writes, and removal of folders that belong to root.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::run::Cmd;
use crate::sudo;

/// Writes a file so that a reader sees the old or the new content, never a part.
pub(crate) fn write_atomic(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let temp = beside(path);
    fs::write(&temp, content).with_context(|| format!("cannot write {}", temp.display()))?;
    fs::rename(&temp, path).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies a file so that a reader sees the old or the new content, never a part. A program that
/// has the old one loaded keeps it.
pub(crate) fn copy_atomic(from: &Path, to: &Path) -> Result<()> {
    let temp = beside(to);
    fs::copy(from, &temp)
        .with_context(|| format!("cannot copy {} to {}", from.display(), temp.display()))?;
    fs::rename(&temp, to).with_context(|| format!("cannot write {}", to.display()))
}

fn beside(path: &Path) -> std::path::PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.partial-{}", std::process::id()))
}

/// Makes a folder with its parents.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make the folder {}", path.display()))
}

/// Removes a folder of ours, if it is there.
pub(crate) fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes a folder whose files may belong to root; never crosses into a mounted file system.
pub(crate) fn remove_root_dir(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let rm = Cmd::new("rm")
        .args(["-rf", "--one-file-system", "--"])
        .arg(path);
    sudo::as_root(rm).output().map(drop)
}

/// The first line of `text` that starts with `key`, without it.
pub(crate) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key))
}

/// Removes a file, if it is there.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
