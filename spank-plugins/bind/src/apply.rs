//! The system calls. `tests/numa-guest` has this file too, to call them on a kernel with four nodes.

use std::ffi::{c_int, c_long, c_ulong};
use std::io;

use gpu::CpuSet;
use gpu::affinity::MASK_WORDS;
use sgpu_config::MemoryPolicy;

/// `MPOL_PREFERRED_MANY` of `linux/mempolicy.h`, which libc lacks.
const MPOL_PREFERRED_MANY: c_int = 5;

/// Binds this process to CPUs. The kernel leaves out those that its control group does not grant, and
/// refuses when none is left.
pub(crate) fn set_affinity(cpus: &CpuSet) -> io::Result<()> {
    let mask = cpus.to_nvml_mask(MASK_WORDS);
    // SAFETY: sched_setaffinity(2) reads the given number of bytes of the mask.
    check(unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            0,
            MASK_WORDS.saturating_mul(size_of::<c_ulong>()),
            mask.as_ptr(),
        )
    })
}

/// Sets where this process' memory comes from; its children inherit it.
pub(crate) fn set_memory(policy: MemoryPolicy, nodes: &CpuSet) -> io::Result<()> {
    match policy {
        MemoryPolicy::Off => Ok(()),
        MemoryPolicy::Local => mempolicy(libc::MPOL_DEFAULT, &CpuSet::new()),
        MemoryPolicy::Bind => mempolicy(libc::MPOL_BIND, nodes),
        MemoryPolicy::Preferred if nodes.len() > 1 => {
            // Several nodes: since Linux 5.15. Before, the first has to do.
            let first = nodes.first().map(|node| CpuSet::from_range(node, node));
            mempolicy(MPOL_PREFERRED_MANY, nodes)
                .or_else(|_| mempolicy(libc::MPOL_PREFERRED, &first.unwrap_or_default()))
        }
        MemoryPolicy::Preferred => mempolicy(libc::MPOL_PREFERRED, nodes),
    }
}

fn mempolicy(mode: c_int, nodes: &CpuSet) -> io::Result<()> {
    let words = nodes.last().map_or(0, |last| {
        let word = last.checked_div(c_ulong::BITS).unwrap_or(0);
        usize::try_from(word).unwrap_or(0).saturating_add(1)
    });
    let mask = nodes.to_nvml_mask(words);
    // The kernel reads one bit less than it is told.
    let bits = words
        .saturating_mul(c_ulong::BITS as usize)
        .saturating_add(1);
    let (mask, bits) = if words == 0 {
        (std::ptr::null(), 0)
    } else {
        (mask.as_ptr(), bits)
    };
    // SAFETY: set_mempolicy(2) reads the given number of bits of the mask, less one; none of NULL.
    check(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, bits) })
}

fn check(answer: c_long) -> io::Result<()> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
