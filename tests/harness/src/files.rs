//! Files with owners.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::unistd::{Gid, Uid, chown};

use crate::root::Ids;
use crate::{Error, Result};

/// Gives a file or folder its owner and mode.
pub(crate) fn own(path: &Path, ids: Ids, mode: u32) -> Result<()> {
    chown(
        path,
        Some(Uid::from_raw(ids.uid)),
        Some(Gid::from_raw(ids.gid)),
    )
    .map_err(|errno| Error::file("give away", path)(errno.into()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(Error::file("chmod", path))
}

/// Writes a file.
pub(crate) fn put(path: &Path, content: impl AsRef<[u8]>, ids: Ids, mode: u32) -> Result<()> {
    fs::write(path, content).map_err(Error::file("write", path))?;
    own(path, ids, mode)
}

/// Makes a folder.
pub(crate) fn make(path: &Path, ids: Ids, mode: u32) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::file("make", path))?;
    own(path, ids, mode)
}
