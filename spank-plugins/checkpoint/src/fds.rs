//! Descriptors that a task's process keeps for a while.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// The first that is none of a program's standard ones.
const ABOVE_STANDARD: libc::c_int = 3;

/// Moves one that stands where slurmstepd puts the task's standard input and output later: those of its own may
/// have been closed.
pub(crate) fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= ABOVE_STANDARD {
        return Ok(fd);
    }
    // SAFETY: takes numbers.
    let moved = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ABOVE_STANDARD) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}
