//! The power of each GPU for Slurm's own `acct_gather_energy/gpu`, in slurmd. sgpu's own energy plugin
//! needs none of this.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use gpu::nvml::{GpuSample, Sampler, SamplerOptions, Want};
use gres_gpu_core::index::Place;
use gres_gpu_core::share::{Share, share};
use gres_gpu_core::watts::Channel;
use slurm_headers::internal::gpu_status_t;
use slurm_plugin::log;

use crate::{Driver, numbering};

/// Slurm calls the hook under a lock that a registering node needs: it must not wait longer.
const DEADLINE: Duration = Duration::from_secs(1);
/// The GPUs of one poll are asked for within this time.
const ONE_POLL: Duration = Duration::from_millis(500);

static SAMPLER: Sampler = Sampler::new(SamplerOptions {
    library: None,
    want: Want {
        energy: true,
        processes: false,
        utilization: false,
    },
    min_age: ONE_POLL,
    keep_open: false,
});

/// One per gres index.
static CHANNELS: Mutex<Vec<Channel>> = Mutex::new(Vec::new());

/// `gpu_p_energy_read`: the power of the GPU with this gres index, such that Slurm's sum follows the
/// GPU's own counter. -1 is "no sample": Slurm leaves its sum as it is.
///
/// # Safety
/// `status` is NULL or the live status of that GPU.
pub unsafe fn energy_read(driver: Driver, index: u32, status: *mut gpu_status_t) -> c_int {
    if !driver.acts() {
        return 0;
    }
    // SAFETY: the caller's contract.
    let Some(status) = (unsafe { status.as_mut() }) else {
        return -1;
    };
    let sample = match SAMPLER.sample(DEADLINE) {
        Ok(sample) => sample,
        Err(error) => {
            log::debug(format_args!("no energy sample: {error}"));
            return -1;
        }
    };
    let (Some(share), Ok(now)) = (
        share_of(index, &sample.gpus),
        sample.wall.duration_since(UNIX_EPOCH),
    ) else {
        return -1;
    };
    let at_unix = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let power_watts = share.power_mw / 1000;
    let Some(watts) = channel_watts(index, share.energy_mj, at_unix, power_watts) else {
        return -1;
    };
    status.previous_update_time = status.last_update_time;
    status.last_update_time = at_unix;
    status.last_update_watt = watts;
    if status.previous_update_time != 0 {
        // Slurm takes the mean of this and the new power; see gres_gpu_core::watts.
        status.energy.current_watts = watts;
    }
    0
}

fn channel_watts(index: u32, counter_mj: u64, at_unix: i64, power_watts: u32) -> Option<u32> {
    let index = usize::try_from(index).ok().filter(|index| *index < 4096)?;
    let mut channels = CHANNELS.lock().unwrap_or_else(PoisonError::into_inner);
    if channels.len() <= index {
        channels.resize_with(index.saturating_add(1), Channel::default);
    }
    channels
        .get_mut(index)?
        .watts(counter_mj, at_unix, power_watts)
}

/// What stands behind a gres index: by its device files, and by NVML's order when Slurm has numbered none.
fn share_of<E>(index: u32, gpus: &[Result<GpuSample, E>]) -> Option<Share> {
    let places = numbering::places();
    let place = if places.is_empty() {
        let gpu = gpus.iter().flatten().find(|gpu| gpu.index == index)?;
        Place {
            minor: gpu.minor?,
            mig: None,
        }
    } else {
        (*places.get(usize::try_from(index).ok()?)?)?
    };
    share(place, gpus)
}

/// Closes NVML and forgets what was sampled.
pub fn close(deadline: Duration) {
    if let Err(hung) = SAMPLER.release(deadline) {
        log::debug(format_args!("NVML stays open: {hung}"));
    }
    SAMPLER.reset();
    CHANNELS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
}
