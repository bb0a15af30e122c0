//! What the processes of a step use of their GPUs, in slurmstepd.
//!
//! Slurm asks for one process after the other at each poll. NVML is asked once per poll: the answers
//! for all processes come from one sample.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpu::nvml::{Sampler, SamplerOptions, Want};
use slurm_headers::internal::acct_gather_data_t;
use slurm_plugin::{gres, log};

use crate::Driver;

/// The longest that a poll may wait for NVML.
const DEADLINE: Duration = Duration::from_secs(1);
/// Processes of one poll are asked for within this time.
const ONE_POLL: Duration = Duration::from_millis(500);

static SAMPLER: Sampler = Sampler::new(SamplerOptions {
    library: None,
    want: Want {
        energy: false,
        processes: true,
        utilization: true,
    },
    min_age: ONE_POLL,
    // NVML held open in each slurmstepd would keep GPUs from being reset.
    keep_open: false,
});

/// Whether the log has told of the present trouble.
static TOLD: AtomicBool = AtomicBool::new(false);

/// `gpu_p_usage_read`: GPU memory in bytes and SM utilisation in percent of one process, summed over
/// its GPUs.
///
/// # Safety
/// `data` is NULL or the TRES array of the process, with an element for each position that Slurm
/// tracks.
pub unsafe fn usage_read(driver: Driver, pid: c_int, data: *mut acct_gather_data_t) -> c_int {
    if !driver.acts() {
        return 0;
    }
    let (memory, utilization) = gres::usage_positions();
    let Ok(pid) = u32::try_from(pid) else {
        return -1;
    };
    if data.is_null() || (memory.is_none() && utilization.is_none()) {
        return 0;
    }
    let sample = match SAMPLER.sample(DEADLINE) {
        Ok(sample) => {
            TOLD.store(false, Ordering::Relaxed);
            sample
        }
        Err(error) => {
            if !TOLD.swap(true, Ordering::Relaxed) {
                log::error(format_args!(
                    "GPU usage of the step's processes is not known: {error}"
                ));
            }
            return -1;
        }
    };
    let mine = || {
        sample
            .gpus
            .iter()
            .flatten()
            .flat_map(|gpu| &gpu.processes)
            .filter(|p| p.pid == pid)
    };
    let memory_bytes: u64 = mine()
        .filter_map(|usage| usage.memory_bytes)
        .fold(0, u64::saturating_add);
    let sm_percent: u64 = mine()
        .filter_map(|usage| usage.sm_percent)
        .map(u64::from)
        .fold(0, u64::saturating_add);
    for (position, value) in [(memory, memory_bytes), (utilization, sm_percent)] {
        if let Some(position) = position {
            // SAFETY: the caller's contract: the array has this position.
            unsafe { (*data.add(position)).size_read = value };
        }
    }
    0
}

/// Closes NVML and forgets what was sampled.
pub fn close(deadline: Duration) {
    if let Err(hung) = SAMPLER.release(deadline) {
        log::debug(format_args!("NVML stays open: {hung}"));
    }
    SAMPLER.reset();
}
