//! The published map from gres index to GPU (`/run/sgpu/gpus`), written by slurmd.
//!
//! Slurm numbers its devices after it has merged gres.conf with what discovery found, so the map can
//! be written only once discovery has returned. A short-lived thread waits for that: no hook is called
//! then, and slurmd must not wait for us.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpu::index_map::{DEFAULT_PATH, IndexEntry, IndexMap, MigPart};
use gpu::model::{Gpu, Inventory, MigInstance};
use gpu::type_name;
use gres_gpu_core::index::minor_of;
use slurm_plugin::gres::{self, Device};
use slurm_plugin::guard::Hook;
use slurm_plugin::{host, log};

/// How long slurmd may take to number its devices after discovery.
const PATIENCE: Duration = Duration::from_secs(30);
/// Far longer than slurmd takes to number all of its devices.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a forked slurmd is left alone first: it forks twice, and a lock that our thread held at
/// the second time would stay locked for ever.
const AFTER_FORK: Duration = Duration::from_millis(200);

/// How long the end of the plugin waits for the thread.
const GOODBYE: Duration = Duration::from_millis(500);

struct Publisher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

static PUBLISHER: Mutex<Option<Publisher>> = Mutex::new(None);

/// What is to be published once slurmd has gone to the background.
static PENDING: Mutex<Option<Arc<Inventory>>> = Mutex::new(None);

/// Publishes the map of `inventory` as soon as slurmd has numbered its devices. Not in `slurmd -G`,
/// which may be looking at a configuration that never comes into force.
pub fn start(inventory: Inventory) {
    static AT_FORK: Once = Once::new();
    drop(dismiss());
    forget_numbering();
    if !host::in_slurmd_daemon() {
        return;
    }
    let inventory = Arc::new(inventory);
    if host::forks_after_discovery() {
        *PENDING.lock().unwrap_or_else(PoisonError::into_inner) = Some(inventory);
        AT_FORK.call_once(|| host::at_fork(forked));
    } else {
        spawn(inventory, Duration::ZERO);
    }
}

/// Removes the map: what it says is no longer known.
pub fn withdraw() {
    if host::in_slurmd_daemon()
        && let Err(error) = std::fs::remove_file(DEFAULT_PATH)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        log::error(format_args!(
            "{DEFAULT_PATH} is out of date and not removed: {error}"
        ));
    }
}

/// In a process that slurmd has forked: itself in the background, or what becomes a slurmstepd.
unsafe extern "C" fn forked() {
    static HOOK: Hook = Hook::new("fork handler");
    HOOK.run((), || {
        // Whoever held the lock in the parent does not exist here.
        let Ok(pending) = PENDING.try_lock() else {
            return;
        };
        let inventory = pending.clone();
        drop(pending);
        if let Some(inventory) = inventory {
            spawn(inventory, AFTER_FORK);
        }
    });
}

fn spawn(inventory: Arc<Inventory>, delay: Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("sgpu-map".to_owned())
        .spawn(move || {
            std::thread::sleep(delay);
            publish(&inventory, &told);
            if let Ok(mut pending) = PENDING.try_lock() {
                *pending = None;
            }
        });
    match thread {
        Ok(thread) => {
            if let Ok(mut publisher) = PUBLISHER.try_lock() {
                *publisher = Some(Publisher { stop, thread });
            }
        }
        Err(error) => log::error(format_args!("{DEFAULT_PATH} is not written: {error}")),
    }
}

/// Tells the thread to end. It is not waited for: it may be waiting for Slurm's gres lock, which our
/// caller holds.
fn dismiss() -> Option<JoinHandle<()>> {
    let publisher = PUBLISHER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()?;
    publisher.stop.store(true, Ordering::Relaxed);
    Some(publisher.thread)
}

/// Ends the thread, before Slurm unmaps its code. One that does not end within [`GOODBYE`] stays behind,
/// and glibc keeps the code mapped for it, since it has thread-local values with destructors.
pub fn stop() {
    let Some(thread) = dismiss() else { return };
    let since = Instant::now();
    while !thread.is_finished() && since.elapsed() < GOODBYE {
        std::thread::sleep(Duration::from_millis(5));
    }
    if thread.is_finished() {
        // It never panics.
        let _ = thread.join();
    }
}

fn publish(inventory: &Inventory, stop: &AtomicBool) {
    let since = Instant::now();
    let mut before = Vec::new();
    let devices = loop {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // 22.05 shows its list while it fills it: it is whole when it no longer grows.
        let devices = gpu_devices();
        if !devices.is_empty() && devices == before {
            break devices;
        }
        if since.elapsed() > PATIENCE {
            log::debug(format_args!(
                "{DEFAULT_PATH} is not written: slurmd has numbered no GPU"
            ));
            return;
        }
        before = devices;
        std::thread::sleep(PAUSE);
    };
    let map = map(inventory, &devices);
    match map.write(Path::new(DEFAULT_PATH)) {
        Ok(()) => log::debug(format_args!("{DEFAULT_PATH}: {} GPUs", map.entries.len())),
        Err(error) => log::error(format_args!("{DEFAULT_PATH} is not written: {error}")),
    }
}

/// Slurm's devices that are GPUs or MIG devices.
fn gpu_devices() -> Vec<Device> {
    let mut devices: Vec<Device> = gres::devices()
        .into_iter()
        .filter(|device| minor_of(&device.path).is_some())
        .collect();
    devices.sort_by_key(|device| device.index);
    devices.dedup_by_key(|device| device.index);
    devices
}

/// The numbering as it was last seen.
static NUMBERED: Mutex<Vec<Option<u32>>> = Mutex::new(Vec::new());

/// The minor number of the GPU behind each gres index, in slurmd; `None` for an index that is no GPU.
///
/// Slurm is asked until it has numbered its GPUs and then no more: its list may be freed at any time by
/// a reconfiguration of 22.05.
#[must_use]
pub fn minors_by_index() -> Vec<Option<u32>> {
    let mut numbered = NUMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    if numbered.is_empty() {
        *numbered = number(&gpu_devices());
    }
    numbered.clone()
}

/// Asks Slurm again next time: its configuration is read anew.
pub fn forget_numbering() {
    NUMBERED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
}

fn number(devices: &[Device]) -> Vec<Option<u32>> {
    let Some(last) = devices.last() else {
        return Vec::new();
    };
    let mut minors = vec![None; last.index.saturating_add(1)];
    for device in devices {
        if let Some(slot) = minors.get_mut(device.index) {
            *slot = minor_of(&device.path);
        }
    }
    minors
}

fn map(inventory: &Inventory, devices: &[Device]) -> IndexMap {
    let entries = devices
        .iter()
        .filter_map(|device| {
            let minor = minor_of(&device.path)?;
            let index = u32::try_from(device.index).ok()?;
            let gpu = inventory.healthy().find(|gpu| gpu.minor == Some(minor));
            let instance = gpu
                .zip(device.unique_id.as_deref())
                .and_then(|(gpu, unique_id)| {
                    gpu.mig.instances()?.iter().find(|instance| {
                        type_name::mig_unique_id(&inventory.driver_version, &gpu.uuid, instance)
                            == unique_id
                    })
                });
            Some(entry(index, minor, &device.path, gpu, instance))
        })
        .collect();
    IndexMap { entries }
}

fn entry(
    index: u32,
    minor: u32,
    path: &str,
    gpu: Option<&Gpu>,
    instance: Option<&MigInstance>,
) -> IndexEntry {
    let files = gpu
        .zip(instance)
        .and_then(|(gpu, instance)| type_name::mig_files(gpu, instance))
        .unwrap_or_else(|| path.to_owned());
    IndexEntry {
        index,
        files: files.split(',').map(str::to_owned).collect(),
        minor: Some(minor),
        pci: gpu.map(|gpu| gpu.pci),
        uuid: instance
            .map(|instance| &instance.uuid)
            .or(gpu.map(|gpu| &gpu.uuid))
            .cloned(),
        mig: gpu.zip(instance).map(|(gpu, instance)| MigPart {
            parent_uuid: gpu.uuid.clone(),
            gpu_instance_id: instance.gpu_instance_id,
            compute_instance_id: instance.compute_instance_id,
        }),
    }
}
