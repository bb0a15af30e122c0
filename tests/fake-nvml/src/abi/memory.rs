//! Memory.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{nvmlBAR1Memory_t, nvmlMemory_t, nvmlMemory_v2_t};

use super::entry::Target;
use super::exports;
use super::out::{Out, Supported as _, version};
use super::processes::memory_of_processes_mib;
use crate::status::Status;

const MIB: u64 = 1 << 20;

exports! {
    any [nvmlDeviceGetMemoryInfo] (t; memory: Out<nvmlMemory_t>) => {
        let (total, reserved, used) = amounts(t)?;
        // The first version has no word for reserved memory and counts it as used.
        let used = (used + reserved).min(total);
        memory.set(nvmlMemory_t { total, free: total - used, used })
    }

    any [nvmlDeviceGetMemoryInfo_v2] (t; memory: Out<nvmlMemory_v2_t>) => {
        memory.versioned(2)?;
        let (total, reserved, used) = amounts(t)?;
        let used = used.min(total - reserved.min(total));
        memory.set(nvmlMemory_v2_t {
            version: version::<nvmlMemory_v2_t>(2),
            total,
            reserved,
            free: total - reserved.min(total) - used,
            used,
        })
    }

    any [nvmlDeviceGetBAR1MemoryInfo] (t; memory: Out<nvmlBAR1Memory_t>) => {
        let total = t.bar1_mib.supported()? * MIB;
        let used = (t.bar1_used_mib.unwrap_or(0) * MIB).min(total);
        memory.set(nvmlBAR1Memory_t { bar1Total: total, bar1Free: total - used, bar1Used: used })
    }

    device [nvmlDeviceGetMemoryBusWidth] (t; width: Out<c_uint>) => {
        width.set(t.memory_bus_width.supported()?)
    }
}

/// Total, reserved and used bytes.
fn amounts(t: &Target<'_>) -> Result<(u64, u64, u64), Status> {
    let (total, reserved, used) = match t.mig {
        Some(mig) => (mig.memory_mib(), 0, mig.memory_used_mib),
        None => {
            let reserved = t.memory_reserved_mib.unwrap_or(0);
            (t.memory_mib.supported()?, reserved, t.memory_used_mib)
        }
    };
    let used = used.unwrap_or_else(|| memory_of_processes_mib(t));
    Ok((total * MIB, reserved * MIB, used * MIB))
}
