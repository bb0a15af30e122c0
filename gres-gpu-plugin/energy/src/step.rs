//! slurmstepd's side: what the step's GPUs have used since it began.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gres_gpu_core::energy::{Meters, Sensor, Used};
use slurm_headers::internal::{self, acct_energy_type, acct_gather_energy_t, stepd_step_rec_t};
use slurm_plugin::memory::SlurmString;
use slurm_plugin::{gres, host, log};

use crate::job::Job;
use crate::record;

/// For how long the first reading is tried again when slurmd refuses it: slurmd of 24.11 answers no more
/// than ten requests at a time.
const INSIST_AT_FIRST: Duration = Duration::from_secs(5);
/// The same for a later reading, which may be the last.
const INSIST: Duration = Duration::from_secs(1);
/// Steps that start together try again at different times, up to twice this apart.
const PAUSE_MILLISECONDS: u64 = 100;

struct Step {
    /// By which slurmd knows the plugin among its energy plugins.
    context: Option<u16>,
    meters: Meters,
    /// How many sensors slurmd has.
    sensors: u16,
    /// The gres indices of the step's GPUs.
    gpus: Vec<usize>,
    job: Option<Job>,
    since: Option<Instant>,
    told: Used,
}

static STEP: Mutex<Step> = Mutex::new(Step {
    context: None,
    meters: Meters::new(),
    sensors: 0,
    gpus: Vec::new(),
    job: None,
    since: None,
    told: Used {
        joules: 0,
        watts: 0,
    },
});

/// Held while slurmd is asked, so that readings are taken in in their order. [`STEP`] is not held
/// meanwhile: a slurmd that does not answer keeps nobody from what is known.
static ASKING: Mutex<()> = Mutex::new(());

fn step() -> MutexGuard<'static, Step> {
    STEP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `acct_gather_energy_p_conf_set` in slurmstepd.
pub(crate) fn set_context(context: c_int) {
    step().context = u16::try_from(context).ok();
}

/// `acct_gather_energy_p_set_data` in slurmstepd.
///
/// # Safety
/// `data` is what Slurm hands in for `kind`.
pub(crate) unsafe fn set(kind: acct_energy_type::Type, data: *mut c_void) {
    match kind {
        acct_energy_type::ENERGY_DATA_STEP_PTR => {
            // SAFETY: the live step.
            unsafe { begin(data.cast::<stepd_step_rec_t>()) };
        }
        acct_energy_type::ENERGY_DATA_PROFILE => {
            poll();
        }
        _ => {}
    }
}

/// The step is about to start its tasks: what the counters show now is not its own.
///
/// # Safety
/// The live step.
unsafe fn begin(record: *const stepd_step_rec_t) {
    // SAFETY: the caller's contract.
    let (gpus, id) = unsafe { (gres::step_gpus(record), (*record).step_id) };
    if gpus.is_empty() {
        return;
    }
    {
        let mut step = step();
        step.gpus = gpus;
        step.job = Job::of_step(id.job_id, id.step_id);
        step.since = Some(Instant::now());
    }
    insist(INSIST_AT_FIRST);
}

/// Polls, and again for so long as slurmd refuses.
fn insist(longest: Duration) {
    let begun = Instant::now();
    let own = u64::from(std::process::id()) % PAUSE_MILLISECONDS;
    while poll() == Answer::Refused && begun.elapsed() < longest {
        sleep(Duration::from_millis(
            PAUSE_MILLISECONDS.saturating_add(own),
        ));
    }
}

/// `acct_gather_energy_p_get_data` in slurmstepd.
///
/// # Safety
/// `data` is what Slurm hands in for `kind`.
pub(crate) unsafe fn get(kind: acct_energy_type::Type, data: *mut c_void) -> c_int {
    match kind {
        acct_energy_type::ENERGY_DATA_SENSOR_CNT => {
            // SAFETY: an uint16_t.
            unsafe { *data.cast::<u16>() = step().sensors };
        }
        acct_energy_type::ENERGY_DATA_LAST_POLL => {
            // SAFETY: a time_t.
            unsafe { *data.cast::<i64>() = record::now() };
        }
        acct_energy_type::ENERGY_DATA_NODE_ENERGY
        | acct_energy_type::ENERGY_DATA_NODE_ENERGY_UP => {
            if kind == acct_energy_type::ENERGY_DATA_NODE_ENERGY_UP {
                insist(INSIST);
            }
            let mut step = step();
            if step.gpus.is_empty() {
                return 0;
            }
            let used = step.used();
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

impl Step {
    /// What the step pays for: all that its GPUs have used, but for a step that runs on what its whole job
    /// has, which pays for what the job's other steps do not.
    fn used(&self) -> Used {
        let used = self.meters.of(&self.gpus);
        let rest = self
            .job
            .as_ref()
            .and_then(|job| job.rest(&self.meters.spans(&self.gpus)));
        Used {
            joules: rest.unwrap_or(used.joules),
            ..used
        }
    }

    fn take_in(&mut self, sensors: Vec<Sensor>) {
        self.sensors = u16::try_from(sensors.len()).unwrap_or(u16::MAX);
        let seconds = self.since.map_or(0, |since| since.elapsed().as_secs());
        self.meters.feed(sensors, seconds);
        let spans = self.meters.spans(&self.gpus);
        if let Some(job) = &mut self.job {
            job.claim(&spans);
        }
    }
}

/// What slurmd says to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answer {
    /// It is answered, or not worth another try now. The next poll catches up.
    Done,
    /// slurmd has too many requests at the moment.
    Refused,
}

/// Asks slurmd for the counters.
fn poll() -> Answer {
    let _turn = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    let context = {
        let step = step();
        if step.gpus.is_empty() {
            return Answer::Done;
        }
        step.context
    };
    let (Some(context), Some(node)) = (context, host::node_name()) else {
        return Answer::Done;
    };
    match ask(context, &node) {
        Ok(sensors) => {
            step().take_in(sensors);
            Answer::Done
        }
        Err(answer) => {
            log::debug("slurmd gave no energy counters this time");
            answer
        }
    }
}

fn ask(context: u16, node: &str) -> Result<Vec<Sensor>, Answer> {
    let node = SlurmString::new(node);
    let (mut count, mut records) = (0u16, null_mut::<acct_gather_energy_t>());
    // SAFETY: Slurm's own RPC to the slurmd of that node: it stores how many records there are and
    // gives the array away. A delta of 0 asks for a fresh reading.
    let rc = unsafe {
        internal::slurm_get_node_energy(node.as_ptr(), context, 0, &raw mut count, &raw mut records)
    };
    let failed = || {
        if host::was_refused() {
            Answer::Refused
        } else {
            Answer::Done
        }
    };
    if records.is_null() {
        return Err(failed());
    }
    let sensors = if rc == 0 {
        // SAFETY: not NULL, and `count` records by the RPC's contract.
        Ok(
            unsafe { slice::from_raw_parts(records, usize::from(count)) }
                .iter()
                .map(record::to_sensor)
                .collect(),
        )
    } else {
        Err(failed())
    };
    // SAFETY: the array is ours and of Slurm's allocator.
    unsafe { internal::acct_gather_energy_destroy(records) };
    sensors
}
