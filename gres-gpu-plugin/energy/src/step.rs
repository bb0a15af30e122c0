//! slurmstepd's side: what the step's GPUs have used since it began.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gres_gpu_core::energy::{Meters, Reading, Used};
use slurm_headers::internal::{self, acct_energy_type, acct_gather_energy_t, stepd_step_rec_t};
use slurm_plugin::memory::SlurmString;
use slurm_plugin::{gres, host, log};

use crate::record;

struct Step {
    /// By which slurmd knows the plugin among its energy plugins.
    context: Option<u16>,
    meters: Meters,
    /// How many sensors slurmd has.
    sensors: u16,
    /// The gres indices of the step's GPUs.
    gpus: Vec<usize>,
    since: Option<Instant>,
    told: Used,
}

static STEP: Mutex<Step> = Mutex::new(Step {
    context: None,
    meters: Meters::new(),
    sensors: 0,
    gpus: Vec::new(),
    since: None,
    told: Used {
        joules: 0,
        watts: 0,
    },
});

fn step() -> MutexGuard<'static, Step> {
    STEP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The step begins: what the counters show now is not its own. Its GPUs are not known yet, so all are
/// noted.
pub(crate) fn begin(context: c_int) {
    let mut step = step();
    step.context = u16::try_from(context).ok();
    step.since = Some(Instant::now());
    poll(&mut step);
}

/// `acct_gather_energy_p_set_data` in slurmstepd.
///
/// # Safety
/// `data` is what Slurm hands in for `kind`.
pub(crate) unsafe fn set(kind: acct_energy_type::Type, data: *mut c_void) {
    match kind {
        acct_energy_type::ENERGY_DATA_STEP_PTR => {
            // SAFETY: the live step.
            step().gpus = unsafe { gres::step_gpus(data.cast::<stepd_step_rec_t>()) };
        }
        acct_energy_type::ENERGY_DATA_PROFILE => poll(&mut step()),
        _ => {}
    }
}

/// `acct_gather_energy_p_get_data` in slurmstepd.
///
/// # Safety
/// `data` is what Slurm hands in for `kind`.
pub(crate) unsafe fn get(kind: acct_energy_type::Type, data: *mut c_void) -> c_int {
    let mut step = step();
    match kind {
        acct_energy_type::ENERGY_DATA_SENSOR_CNT => {
            // SAFETY: an uint16_t.
            unsafe { *data.cast::<u16>() = step.sensors };
        }
        acct_energy_type::ENERGY_DATA_LAST_POLL => {
            // SAFETY: a time_t.
            unsafe { *data.cast::<i64>() = record::now() };
        }
        acct_energy_type::ENERGY_DATA_NODE_ENERGY
        | acct_energy_type::ENERGY_DATA_NODE_ENERGY_UP => {
            if step.gpus.is_empty() {
                return 0;
            }
            if kind == acct_energy_type::ENERGY_DATA_NODE_ENERGY_UP {
                poll(&mut step);
            }
            let used = step.meters.of(&step.gpus);
            let seconds = step.since.map_or(0, |since| since.elapsed().as_secs());
            let before = std::mem::replace(&mut step.told, used);
            // SAFETY: one record.
            unsafe {
                *data.cast::<acct_gather_energy_t>() = record::of_used(used, before, seconds)
            };
        }
        _ => return -1,
    }
    0
}

/// Asks slurmd for the counters. When it does not answer, the next poll catches up.
fn poll(step: &mut Step) {
    let (Some(context), Some(node)) = (step.context, host::node_name()) else {
        return;
    };
    if !gres::any() {
        return;
    }
    let readings = ask(context, &node);
    if readings.is_empty() {
        log::debug("slurmd gave no energy counters this time");
        return;
    }
    step.sensors = u16::try_from(readings.len()).unwrap_or(u16::MAX);
    let seconds = step.since.map_or(0, |since| since.elapsed().as_secs());
    step.meters.feed(readings, seconds);
}

fn ask(context: u16, node: &str) -> Vec<Option<Reading>> {
    let node = SlurmString::new(node);
    let (mut count, mut records) = (0u16, null_mut::<acct_gather_energy_t>());
    // SAFETY: Slurm's own RPC to the slurmd of that node: it stores how many records there are and
    // gives the array away. A delta of 0 asks for a fresh reading.
    let rc = unsafe {
        internal::slurm_get_node_energy(node.as_ptr(), context, 0, &raw mut count, &raw mut records)
    };
    if records.is_null() {
        return Vec::new();
    }
    let readings = if rc == 0 {
        // SAFETY: not NULL, and `count` records by the RPC's contract.
        unsafe { slice::from_raw_parts(records, usize::from(count)) }
            .iter()
            .map(record::to_reading)
            .collect()
    } else {
        Vec::new()
    };
    // SAFETY: the array is ours and of Slurm's allocator.
    unsafe { internal::acct_gather_energy_destroy(records) };
    readings
}
