//! The cost of setting a variable.
//!
//! Slurm's `setenvf` takes a cleared block of 256 KiB for each value (`src/common/env.c`, the same in all
//! releases). glibc gives the first such block as a mapping of its own, of which only the pages used cost
//! anything. Once one was freed it takes the next from the heap and clears all of it, in a forked task after
//! copying the pages.

use libc::c_int;

/// glibc's first threshold, from which on a block is a mapping of its own (`mallopt(3)`).
const THRESHOLD_BYTES: c_int = 128 * 1024;

/// Has this process take large blocks as mappings of their own, as it did when it began. For a task, which is
/// soon another program.
pub fn large_blocks_are_mappings() {
    // SAFETY: takes numbers; glibc locks its own state.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD_BYTES) };
}
