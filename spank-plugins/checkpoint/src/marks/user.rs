//! Whose job it is.

use std::io;

use slurm_plugin::spank::{Spank, SpankError};

/// A user with his groups.
#[derive(Debug)]
pub(super) struct User {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl User {
    /// The job's.
    pub(super) fn of(spank: &Spank<'_>) -> Result<Self, SpankError> {
        Ok(Self {
            uid: spank.user()?,
            gid: spank.group()?,
            groups: spank.further_groups()?,
        })
    }

    /// Makes this process his, for good.
    pub(super) fn become_him(&self) -> io::Result<()> {
        let Self { uid, gid, groups } = self;
        let (mut real, mut effective, mut saved) = (0, 0, 0);
        // SAFETY: our array and its length; numbers; the kernel writes three.
        unsafe {
            // Another plugin may have asked to keep root's rights.
            check(libc::prctl(libc::PR_SET_KEEPCAPS, 0))?;
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            check(libc::setgroups(groups.len(), groups.as_ptr()))?;
            check(libc::setresgid(*gid, *gid, *gid))?;
            check(libc::setresuid(*uid, *uid, *uid))?;
            check(libc::getresuid(
                &raw mut real,
                &raw mut effective,
                &raw mut saved,
            ))?;
        }
        let his = [real, effective, saved].iter().all(|id| id == uid);
        // SAFETY: takes a number.
        if !his || (*uid != 0 && unsafe { libc::setuid(0) } == 0) {
            return Err(io::Error::other("still root"));
        }
        Ok(())
    }
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
