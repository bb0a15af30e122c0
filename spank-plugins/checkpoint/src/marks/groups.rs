//! The waiter's control groups: it is started before slurmstepd has put the task into the step's.

use std::fs;
use std::io::{self, Write as _};

use spank_core::checkpoint::cgroups;

/// Puts this process, as root, where the task is.
///
/// # Errors
/// When it is elsewhere afterwards: it must not serve then, since the step's limits would not be its own.
pub(super) fn follow(task: libc::pid_t) -> io::Result<()> {
    let of_the_task = fs::read_to_string(format!("/proc/{task}/cgroup"))?;
    let own = || fs::read_to_string("/proc/self/cgroup");
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let files = cgroups::moves(&own()?, &of_the_task, &mounts).map_err(io::Error::other)?;
    for file in files {
        // 0 is this process.
        fs::OpenOptions::new()
            .write(true)
            .open(file)?
            .write_all(b"0")?;
    }
    if own()? == of_the_task {
        Ok(())
    } else {
        Err(io::Error::other("not in the task's control groups"))
    }
}
