//! The CPUs that the calling process may use.
#![allow(unsafe_code)]

use std::ffi::c_ulong;
use std::io;

use crate::CpuSet;

/// Room for masks, in words: more CPUs than a [`CpuSet`] holds.
pub const MASK_WORDS: usize = 1024;

/// By sched_getaffinity(2), which needs no `/proc`.
///
/// # Errors
/// The kernel's.
pub fn of_this_process() -> io::Result<CpuSet> {
    let mut mask: [c_ulong; MASK_WORDS] = [0; MASK_WORDS];
    // SAFETY: sched_getaffinity(2) writes at most the given number of bytes to the mask.
    let written = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            0,
            size_of_val(&mask),
            mask.as_mut_ptr(),
        )
    };
    if written < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(CpuSet::from_nvml_mask(&mask))
}

#[cfg(test)]
mod tests {
    /// `/proc` says the same.
    #[test]
    fn it_is_what_proc_shows() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        let shown: crate::CpuSet = list.trim().parse().unwrap();
        assert_eq!(super::of_this_process().unwrap(), shown);
    }
}
