//! slurmd's side: the counters of the node's GPUs, in the order of their gres indices.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpu::nvml::{GpuSample, Sampler, SamplerOptions, Want};
use gres_gpu_core::energy::{Meters, Reading, Used};
use gres_gpu_driver::publish::{forget_numbering, minors_by_index};
use slurm_headers::internal::{acct_energy_type, acct_gather_energy_t};
use slurm_plugin::log;

use crate::record;

/// Slurm calls the hooks under a lock that a registering node needs: none may wait longer.
const DEADLINE: Duration = Duration::from_secs(1);
/// Steps that ask within this time share a reading.
const SHARED: Duration = Duration::from_millis(500);

static SAMPLER: Sampler = Sampler::new(SamplerOptions {
    library: None,
    want: Want {
        energy: true,
        processes: false,
        utilization: false,
    },
    min_age: SHARED,
    // A step's last reading must not wait for NVML to start: when its end reaches slurmctld after that
    // of its job, Slurm drops all of the step's figures.
    keep_open: true,
});

/// What slurmd knows of its GPUs.
struct Node {
    /// The last reading of each gres index.
    readings: Vec<Option<Reading>>,
    read_at_unix: i64,
    /// Since slurmd started.
    meters: Meters,
    since: Option<Instant>,
    told: Used,
    /// Whether the log has told of the present trouble.
    in_trouble: bool,
}

static NODE: Mutex<Node> = Mutex::new(Node {
    readings: Vec::new(),
    read_at_unix: 0,
    meters: Meters::new(),
    since: None,
    told: Used {
        joules: 0,
        watts: 0,
    },
    in_trouble: false,
});

fn node() -> MutexGuard<'static, Node> {
    NODE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the counters, within [`DEADLINE`].
pub(crate) fn sample() {
    let minors = minors_by_index();
    if minors.is_empty() {
        return;
    }
    let sample = SAMPLER.sample(DEADLINE);
    let mut node = node();
    match sample {
        Ok(sample) => {
            if std::mem::take(&mut node.in_trouble) {
                log::info("GPU energy counters are read again");
            }
            node.readings = minors
                .iter()
                .map(|minor| {
                    reading(
                        minors_share(&minors, (*minor)?),
                        find(&sample.gpus, (*minor)?)?,
                    )
                })
                .collect();
            node.read_at_unix = record::now();
            let seconds = node
                .since
                .get_or_insert_with(Instant::now)
                .elapsed()
                .as_secs();
            let readings = node.readings.clone();
            node.meters.feed(readings, seconds);
        }
        Err(error) => {
            if !std::mem::replace(&mut node.in_trouble, true) {
                log::error(format_args!(
                    "GPU energy counters are not read: {error}; steps catch up once they are"
                ));
            }
            node.readings = vec![None; minors.len()];
        }
    }
}

fn find<E>(gpus: &[Result<GpuSample, E>], minor: u32) -> Option<&GpuSample> {
    gpus.iter().flatten().find(|gpu| gpu.minor == Some(minor))
}

/// How many gres indices share one GPU: its MIG devices, which have no counters of their own.
fn minors_share(minors: &[Option<u32>], minor: u32) -> u64 {
    let count = minors.iter().filter(|other| **other == Some(minor)).count();
    u64::try_from(count).unwrap_or(1).max(1)
}

fn reading(share: u64, gpu: &GpuSample) -> Option<Reading> {
    let counter_joules = (gpu.energy_mj? / 1000).checked_div(share)?;
    let power_watts = u64::from(gpu.power_mw.unwrap_or(0) / 1000).checked_div(share)?;
    Some(Reading {
        counter_joules,
        power_watts: u32::try_from(power_watts).ok()?,
    })
}

thread_local! {
    /// How many sensors this thread was last told of. Slurm asks for the number, allocates as many records
    /// and has them filled, all on one thread; meanwhile the numbering may change on another.
    static TOLD: Cell<u16> = const { Cell::new(0) };
}

/// `acct_gather_energy_p_get_data` in slurmd.
///
/// # Safety
/// `data` is what Slurm hands in for `kind`: for arrays, as many records as `SENSOR_CNT` said on this
/// thread.
pub(crate) unsafe fn get(kind: acct_energy_type::Type, data: *mut c_void) -> c_int {
    match kind {
        acct_energy_type::ENERGY_DATA_SENSOR_CNT => {
            let count = sensors();
            TOLD.set(count);
            // SAFETY: an uint16_t.
            unsafe { *data.cast::<u16>() = count };
        }
        acct_energy_type::ENERGY_DATA_LAST_POLL => {
            // SAFETY: a time_t.
            unsafe { *data.cast::<i64>() = node().read_at_unix };
        }
        acct_energy_type::ENERGY_DATA_JOULES_TASK | acct_energy_type::ENERGY_DATA_STRUCT => {
            if kind == acct_energy_type::ENERGY_DATA_JOULES_TASK {
                sample();
            }
            // SAFETY: Slurm has allocated as many records as it was told of on this thread
            // (`_rpc_acct_gather_energy` in src/slurmd/slurmd/req.c).
            let records = unsafe {
                let count = usize::from(TOLD.get());
                slice::from_raw_parts_mut(data.cast::<acct_gather_energy_t>(), count)
            };
            let node = node();
            let readings = node.readings.iter().copied().chain(std::iter::repeat(None));
            for (slot, reading) in records.iter_mut().zip(readings) {
                *slot = record::of_reading(reading);
            }
        }
        acct_energy_type::ENERGY_DATA_NODE_ENERGY
        | acct_energy_type::ENERGY_DATA_NODE_ENERGY_UP => {
            sample();
            let mut node = node();
            let used = node.meters.all();
            let seconds = node.since.map_or(0, |since| since.elapsed().as_secs());
            let before = std::mem::replace(&mut node.told, used);
            // SAFETY: one record.
            unsafe {
                *data.cast::<acct_gather_energy_t>() = record::of_used(used, before, seconds)
            };
        }
        _ => return -1,
    }
    0
}

/// One per gres index. A node without GPUs has one that is never read: slurmd logs an error at each
/// poll of each step when there is none.
fn sensors() -> u16 {
    u16::try_from(minors_by_index().len())
        .unwrap_or(u16::MAX)
        .max(1)
}

/// slurmd has read its configuration anew, and may number its GPUs otherwise.
pub(crate) fn reconfigured() {
    forget_numbering();
}

/// Closes NVML and forgets what was sampled.
pub(crate) fn close() {
    if let Err(hung) = SAMPLER.release(DEADLINE) {
        log::debug(format_args!("NVML stays open: {hung}"));
    }
    SAMPLER.reset();
    gpu::nvml::reset();
    forget_numbering();
}
