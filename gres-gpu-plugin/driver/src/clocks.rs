//! `--gpu-freq`: the clocks of a step's GPUs, in slurmstepd.

use std::ffi::c_char;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpu::PciAddress;
use gpu::index_map::{DEFAULT_PATH, IndexEntry, IndexMap, IndexMapError};
use gpu::nvml::{Clock, Device, Error, Session, Trace, Worker};
use gres_gpu_core::clocks::Request;
use slurm_headers::internal::bitstr_t;
use slurm_plugin::bitstring::View;
use slurm_plugin::{cstr, gres, log};

use crate::Driver;

/// A step starts at the latest after this, whatever NVML does.
const DEADLINE: Duration = Duration::from_secs(10);

/// The map is there at the latest so long after slurmd has registered.
const MAP_DELAY: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

static WORKER: Worker = Worker::new();

/// The GPUs whose clocks the step changed.
static CHANGED: Mutex<Vec<PciAddress>> = Mutex::new(Vec::new());

/// `gpu_p_step_hardware_init`.
///
/// # Safety
/// Both are NULL or the live bitmap of the step's gres indices and its `tres_freq`.
pub unsafe fn step_init(driver: Driver, gpus: *mut bitstr_t, tres_freq: *mut c_char) {
    if !driver.acts() {
        return;
    }
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
    let indices = gpus.ones();
    let asked = indices.len();
    let addresses = addresses(&indices);
    CHANGED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone_from(&addresses);
    let verbose = request.verbose;
    let set = on_each(addresses, move |device| set(device, &request));
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
    let addresses = std::mem::take(&mut *CHANGED.lock().unwrap_or_else(PoisonError::into_inner));
    let asked = addresses.len();
    let reset = on_each(addresses, |device| device.reset_applications_clocks()).len();
    if reset < asked {
        eprintln!("Could not reset frequencies for all GPUs. Set {reset}/{asked} total GPUs");
    }
}

/// Forgets what hangs, for a plugin that is loaded again.
pub(crate) fn reset() {
    WORKER.reset();
}

/// Where the GPUs of gres indices are, by the map that slurmd published. What the map does not tell is
/// left alone, with a line in the log: it may be another job's GPU. So are MIG devices, whose clocks are
/// their whole GPU's.
fn addresses(indices: &[usize]) -> Vec<PciAddress> {
    let map = match wait_for_map() {
        Ok(map) => map,
        Err(error) => {
            log::error(format_args!("--gpu-freq: no clock is changed: {error}"));
            return Vec::new();
        }
    };
    indices
        .iter()
        .filter_map(|index| {
            let entry = u32::try_from(*index).ok().and_then(|index| map.get(index));
            match entry {
                Some(entry) if entry.mig.is_some() => log::info(format_args!(
                    "--gpu-freq: the clocks of MIG device {index} are left alone: they are its whole GPU's"
                )),
                Some(IndexEntry { pci: Some(pci), .. }) => return Some(*pci),
                _ => log::error(format_args!(
                    "--gpu-freq: {DEFAULT_PATH} does not tell which GPU index {index} is; its clocks are \
                     left alone"
                )),
            }
            None
        })
        .collect()
}

/// The map; slurmd publishes it a moment after it has registered, and a step may be faster.
fn wait_for_map() -> Result<IndexMap, IndexMapError> {
    let begun = Instant::now();
    loop {
        match IndexMap::read(Path::new(DEFAULT_PATH)) {
            Err(IndexMapError::File(_)) if begun.elapsed() < MAP_DELAY => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

/// Does `work` on each of the GPUs and gives what succeeded. Each has a thread, so that one that hangs
/// keeps no other waiting beyond the deadline.
fn on_each<T: Send + 'static>(
    addresses: Vec<PciAddress>,
    work: impl Fn(&Device<'_>) -> Result<T, Error> + Clone + Send + 'static,
) -> Vec<T> {
    let jobs = addresses.iter().map(|pci| {
        let (pci, work) = (*pci, work.clone());
        move |trace: &Arc<Trace>| -> Result<T, Error> {
            let session = Session::open(None, trace)?;
            work(&session.device_by_pci(&pci)?)
        }
    });
    let outcomes = WORKER.run_all(DEADLINE, jobs);
    let mut done = Vec::new();
    for (pci, outcome) in addresses.iter().zip(outcomes) {
        match outcome {
            Ok(Ok(value)) => done.push(value),
            Ok(Err(error)) => log::error(format_args!("--gpu-freq: GPU {pci}: {error}")),
            Err(hung) => log::error(format_args!("--gpu-freq: GPU {pci}: {hung}")),
        }
    }
    done
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
