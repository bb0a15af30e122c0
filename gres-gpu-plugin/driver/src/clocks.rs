//! `--gpu-freq`: the clocks of a step's GPUs, in slurmstepd.

use std::ffi::c_char;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpu::index_map::{DEFAULT_PATH, IndexMap};
use gpu::nvml::{Clock, Device, Error, Session, Worker};
use gres_gpu_core::clocks::Request;
use slurm_headers::internal::bitstr_t;
use slurm_plugin::bitstring::View;
use slurm_plugin::{cstr, gres, log};

/// A step starts at the latest after this, whatever NVML does.
const DEADLINE: Duration = Duration::from_secs(10);

static WORKER: Worker = Worker::new();

/// The minor numbers of the GPUs whose clocks the step changed.
static CHANGED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// `gpu_p_step_hardware_init`.
///
/// # Safety
/// Both are NULL or the live bitmap of the step's gres indices and its `tres_freq`.
pub unsafe fn step_init(gpus: *mut bitstr_t, tres_freq: *mut c_char) {
    // SAFETY: the caller's contract.
    let (gpus, tres_freq) = unsafe { (View::new(gpus), cstr::text(tres_freq)) };
    let (Some(gpus), Some(tres_freq)) = (gpus, tres_freq) else {
        return;
    };
    let Some(request) = Request::of_tres_freq(&tres_freq) else {
        return;
    };
    for word in &request.unknown {
        log::debug(format_args!(
            "--gpu-freq: {word} is neither a clock nor a word that it knows"
        ));
    }
    let request = request.or(&Request::parse(&gres::gpu_freq_default()));
    if request.is_empty() {
        return;
    }
    let minors = minors(&gpus.ones());
    let asked = minors.len();
    *CHANGED.lock().unwrap_or_else(PoisonError::into_inner) = minors.clone();
    let verbose = request.verbose;
    let set = on_each(minors, move |device| set(device, &request));
    if verbose && let Some(first) = set.first() {
        eprintln!("GpuFreq={first}");
    }
    if set.len() < asked {
        eprintln!(
            "Could not set frequencies for all GPUs. Set {}/{asked} total GPUs",
            set.len()
        );
    }
}

/// `gpu_p_step_hardware_fini`: the clocks go back to the GPU's own default.
pub fn step_fini() {
    let minors = std::mem::take(&mut *CHANGED.lock().unwrap_or_else(PoisonError::into_inner));
    if minors.is_empty() {
        return;
    }
    let asked = minors.len();
    let reset = on_each(minors, |device| device.reset_applications_clocks()).len();
    if reset < asked {
        eprintln!("Could not reset frequencies for all GPUs. Set {reset}/{asked} total GPUs");
    }
}

/// The minor numbers of gres indices, by the map that slurmd published; where there is none, the index
/// itself. An index that the map lacks is no GPU that may be changed.
fn minors(indices: &[usize]) -> Vec<u32> {
    let map = IndexMap::read(Path::new(DEFAULT_PATH))
        .inspect_err(|error| log::debug(format_args!("{error}; gres index taken as minor number")))
        .ok();
    let indices = indices
        .iter()
        .filter_map(|index| u32::try_from(*index).ok());
    match map {
        Some(map) => indices.filter_map(|index| map.get(index)?.minor).collect(),
        None => indices.collect(),
    }
}

/// Does `work` on each of the GPUs under the deadline and gives what succeeded. In a step whose
/// devices are constrained NVML sees only the step's own GPUs: minor numbers tell them apart.
fn on_each<T: Send + 'static>(
    minors: Vec<u32>,
    work: impl Fn(&Device<'_>) -> Result<T, Error> + Send + 'static,
) -> Vec<T> {
    let done = WORKER.run(DEADLINE, move |trace| -> Result<Vec<T>, Error> {
        let session = Session::open(None, trace)?;
        let mut done = Vec::new();
        for index in 0..session.device_count()? {
            let outcome = session.device_by_index(index).and_then(|device| {
                let minor = device.minor()?;
                minors.contains(&minor).then(|| work(&device)).transpose()
            });
            match outcome {
                Ok(Some(value)) => done.push(value),
                Ok(None) => {}
                Err(error) => log::error(format_args!("--gpu-freq: {error}")),
            }
        }
        Ok(done)
    });
    match done {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => {
            log::error(format_args!("--gpu-freq: {error}"));
            Vec::new()
        }
        Err(hung) => {
            log::error(format_args!("--gpu-freq: {hung}"));
            Vec::new()
        }
    }
}

/// Sets the clocks nearest to what is asked for and says which they are.
fn set(device: &Device<'_>, request: &Request) -> Result<String, Error> {
    let memory_clocks = device.supported_memory_clocks()?;
    let memory = match request
        .memory
        .and_then(|clock| clock.nearest(&memory_clocks))
    {
        Some(clock) => clock,
        None => device.applications_clock(Clock::Memory)?,
    };
    let graphics_clocks = device.supported_graphics_clocks(memory)?;
    let graphics = match request
        .graphics
        .and_then(|clock| clock.nearest(&graphics_clocks))
    {
        Some(clock) => clock,
        None => device.applications_clock(Clock::Graphics)?,
    };
    device.set_applications_clocks(memory, graphics)?;
    Ok(format!("memory_freq:{memory},graphics_freq:{graphics}"))
}
