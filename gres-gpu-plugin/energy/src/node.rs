//! slurmd's side: the counters of the node's GPUs, in the order of their gres indices.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpu::nvml::{GpuSample, Sampler, SamplerOptions, Want};
use gpu::{DeviceFault, PciAddress};
use gres_gpu_core::energy::{Meters, Reading, Sensor, Used};
use gres_gpu_core::index::Place;
use gres_gpu_core::share::{Share, share};
use gres_gpu_driver::numbering::{forget, places};
use slurm_headers::internal::{acct_energy_type, acct_gather_energy_t};
use slurm_plugin::{host, log};

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
    /// One per gres index, as last read.
    sensors: Vec<Sensor>,
    /// Until when they are handed out again.
    serves_until: Option<Instant>,
    /// Whole GPUs, since slurmd started.
    meters: Meters,
    since: Option<Instant>,
    told: Used,
    /// Whether the log has told that there is no sample.
    in_trouble: bool,
    /// The places of which the log has told that they are not read, by id.
    silent: BTreeSet<u64>,
    /// Where the GPUs were found, by minor number.
    addresses: BTreeMap<u32, PciAddress>,
}

static NODE: Mutex<Node> = Mutex::new(Node {
    sensors: Vec::new(),
    serves_until: None,
    meters: Meters::new(),
    since: None,
    told: Used {
        joules: 0,
        watts: 0,
    },
    in_trouble: false,
    silent: BTreeSet::new(),
    addresses: BTreeMap::new(),
});

fn node() -> MutexGuard<'static, Node> {
    NODE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the log when the configuration has no use for what is read here.
pub(crate) fn check_configuration() {
    if host::job_acct_gather_type().is_none_or(|gather| gather.ends_with("/none")) {
        log::error(
            "JobAcctGatherType is not set in slurm.conf: steps get no joules; \
             JobAcctGatherType=jobacct_gather/cgroup gives them theirs",
        );
    }
}

/// Reads the counters, within [`DEADLINE`]. Slurm lets one request through at a time, so a reading that
/// took long serves those that have queued up meanwhile.
pub(crate) fn sample() {
    let begun = Instant::now();
    if node().serves_until.is_some_and(|until| begun < until) {
        return;
    }
    let places = places();
    if places.is_empty() {
        return;
    }
    let sample = SAMPLER.sample(DEADLINE);
    let mut node = node();
    node.serves_until = Instant::now().checked_add(begun.elapsed());
    match sample {
        Ok(sample) => {
            if std::mem::take(&mut node.in_trouble) {
                log::info("GPU energy counters are read again");
            }
            node.take_in(&places, &sample.gpus);
        }
        Err(error) => {
            if !std::mem::replace(&mut node.in_trouble, true) {
                log::error(format_args!(
                    "GPU energy counters are not read: {error}; steps catch up once they are"
                ));
            }
            node.take_in_nothing(&places);
        }
    }
}

impl Node {
    fn take_in(&mut self, places: &[Option<Place>], gpus: &[Result<GpuSample, DeviceFault>]) {
        self.sensors = sensors(places, gpus);
        self.feed_meters(places, gpus);
        for place in places.iter().flatten() {
            self.tell(*place, gpus);
        }
    }

    /// No GPU could be read.
    fn take_in_nothing(&mut self, places: &[Option<Place>]) {
        for sensor in &mut self.sensors {
            sensor.reading = None;
        }
        self.feed_meters(places, &[]);
    }

    /// The node pays for whole GPUs, MIG or not.
    fn feed_meters(&mut self, places: &[Option<Place>], gpus: &[Result<GpuSample, DeviceFault>]) {
        let minors: BTreeSet<u32> = places.iter().flatten().map(|place| place.minor).collect();
        let whole: Vec<_> = minors
            .into_iter()
            .map(|minor| Some(Place { minor, mig: None }))
            .collect();
        let seconds = self
            .since
            .get_or_insert_with(Instant::now)
            .elapsed()
            .as_secs();
        self.meters.feed(sensors(&whole, gpus), seconds);
    }

    /// Tells the log once when a GPU or MIG device is not read, and when it is again.
    fn tell(&mut self, place: Place, gpus: &[Result<GpuSample, DeviceFault>]) {
        let found = gpus
            .iter()
            .flatten()
            .find(|gpu| gpu.minor == Some(place.minor));
        if let Some(gpu) = found {
            self.addresses.insert(place.minor, gpu.pci);
        }
        if share(place, gpus).is_some() {
            if self.silent.remove(&place.id()) {
                log::info(format_args!("the energy of {place} is read again"));
            }
        } else if self.silent.insert(place.id()) {
            let why = match found {
                Some(gpu) => why_without_counter(gpu),
                None => why_not_found(self.addresses.get(&place.minor), gpus),
            };
            log::error(format_args!(
                "the energy of {place} is not read: {why}; steps catch up once it is"
            ));
        }
    }
}

fn sensors(places: &[Option<Place>], gpus: &[Result<GpuSample, DeviceFault>]) -> Vec<Sensor> {
    places
        .iter()
        .map(|place| match place {
            Some(place) => sensor(*place, share(*place, gpus)),
            None => Sensor::default(),
        })
        .collect()
}

/// A MIG device that has become another under the same ids has another share of its GPU's counter: it is
/// another sensor, and one that is not read is none, since its share is not known.
fn sensor(place: Place, share: Option<Share>) -> Sensor {
    let Some(share) = share else {
        return Sensor {
            gpu: if place.mig.is_none() { place.id() } else { 0 },
            reading: None,
        };
    };
    Sensor {
        gpu: place.id() | (u64::from(share.slices) << 56),
        reading: Some(Reading {
            counter_joules: share.energy_mj / 1000,
            power_watts: share.power_mw / 1000,
        }),
    }
}

fn why_without_counter(gpu: &GpuSample) -> String {
    let name = format!("GPU {} ({})", gpu.index, gpu.pci);
    match gpu.notes.first() {
        Some(note) => format!("{name}: {note}"),
        None => format!("{name} has no energy counter, or no such MIG device"),
    }
}

/// What is wrong with the GPU at an address, or with all that are not read when the GPU has never told its
/// own.
fn why_not_found(address: Option<&PciAddress>, gpus: &[Result<GpuSample, DeviceFault>]) -> String {
    let faults = || gpus.iter().filter_map(|gpu| gpu.as_ref().err());
    let own = faults().find(|fault| fault.pci.is_some() && fault.pci.as_ref() == address);
    let told: Vec<String> = match own {
        Some(fault) => vec![fault.to_string()],
        None => faults().map(ToString::to_string).collect(),
    };
    if told.is_empty() {
        "NVML knows no such GPU".to_owned()
    } else {
        told.join("; ")
    }
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
            let count = sensor_count();
            TOLD.set(count);
            // SAFETY: an uint16_t.
            unsafe { *data.cast::<u16>() = count };
        }
        acct_energy_type::ENERGY_DATA_LAST_POLL => {
            // Slurm compares whole seconds, and would hand on a reading that is older than the request.
            // SAFETY: a time_t.
            unsafe { *data.cast::<i64>() = 0 };
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
            let nothing = std::iter::repeat(Sensor::default());
            let sensors = node.sensors.iter().copied().chain(nothing);
            for (slot, sensor) in records.iter_mut().zip(sensors) {
                *slot = record::of_sensor(sensor);
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
fn sensor_count() -> u16 {
    u16::try_from(places().len()).unwrap_or(u16::MAX).max(1)
}

/// slurmd has read its configuration anew, and may number its GPUs otherwise.
pub(crate) fn reconfigured() {
    node().serves_until = None;
    forget();
}

/// Closes NVML and forgets what was sampled.
pub(crate) fn close() {
    if let Err(hung) = SAMPLER.release(DEADLINE) {
        log::debug(format_args!("NVML stays open: {hung}"));
    }
    SAMPLER.reset();
    gpu::nvml::reset();
    forget();
}
