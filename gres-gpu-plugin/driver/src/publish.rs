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
use gpu::model::Inventory;
use gpu::run_file;
use gpu::type_name;
use gres_gpu_core::index::Place;
use slurm_plugin::guard::Hook;
use slurm_plugin::{host, log};

use crate::numbering;

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
    /// The process that the thread is of: a fork inherits the note of it but not the thread.
    pid: u32,
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
    if !host::in_slurmd_daemon() {
        return;
    }
    let inventory = Arc::new(inventory);
    if host::forks_after_discovery() {
        set_pending(Some(inventory));
        AT_FORK.call_once(|| host::at_fork(forked));
    } else {
        spawn(inventory, Duration::ZERO);
    }
}

/// Removes the map, and forgets the numbering: slurmd is about to list its GPUs anew, or cannot. Nobody
/// may act on what the map said before.
pub fn withdraw() {
    drop(dismiss());
    set_pending(None);
    numbering::forget();
    if host::in_slurmd_daemon()
        && let Err(error) = run_file::remove(Path::new(DEFAULT_PATH))
    {
        log::error(format_args!(
            "{DEFAULT_PATH} is out of date and not removed: {error}"
        ));
    }
}

fn set_pending(inventory: Option<Arc<Inventory>>) {
    *PENDING.lock().unwrap_or_else(PoisonError::into_inner) = inventory;
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
        if let Some(inventory) = inventory
            && host::forks_after_discovery()
        {
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
            // Later forks are steps, which have nothing to publish.
            if let Ok(mut pending) = PENDING.try_lock() {
                *pending = None;
            }
        });
    match thread {
        Ok(thread) => {
            if let Ok(mut publisher) = PUBLISHER.try_lock() {
                let pid = std::process::id();
                let before = publisher.replace(Publisher { pid, stop, thread });
                drop(publisher);
                forget_inherited(before);
            }
        }
        Err(error) => log::error(format_args!("{DEFAULT_PATH} is not written: {error}")),
    }
}

/// The note of a thread, unless it is of the process that forked this one: no thread stands behind that,
/// and it must be neither joined nor detached.
fn forget_inherited(publisher: Option<Publisher>) -> Option<Publisher> {
    let publisher = publisher?;
    if publisher.pid == std::process::id() {
        return Some(publisher);
    }
    std::mem::forget(publisher);
    None
}

/// Tells the thread to end. It is not waited for: it may be waiting for Slurm's gres lock, which our
/// caller holds.
fn dismiss() -> Option<JoinHandle<()>> {
    let publisher = PUBLISHER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let publisher = forget_inherited(publisher)?;
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
    let places = loop {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // slurmd may be between two readings of its configuration: the numbering holds when it lasts.
        let places = numbering::ask();
        if !places.is_empty() && places == before {
            break places;
        }
        if since.elapsed() > PATIENCE {
            log::debug(format_args!(
                "{DEFAULT_PATH} is not written: slurmd has numbered no GPU"
            ));
            return;
        }
        before = places;
        std::thread::sleep(PAUSE);
    };
    let map = map(inventory, &places);
    match map.write(Path::new(DEFAULT_PATH)) {
        Ok(()) => log::debug(format_args!("{DEFAULT_PATH}: {} GPUs", map.entries.len())),
        Err(error) => log::error(format_args!("{DEFAULT_PATH} is not written: {error}")),
    }
}

fn map(inventory: &Inventory, places: &[Option<Place>]) -> IndexMap {
    let entries = (0..)
        .zip(places)
        .filter_map(|(index, place)| Some(entry(index, (*place)?, inventory)))
        .collect();
    IndexMap { entries }
}

/// What is known of a place: all of it for one that discovery has found, else its minor number alone.
fn entry(index: u32, place: Place, inventory: &Inventory) -> IndexEntry {
    let gpu = inventory
        .healthy()
        .find(|gpu| gpu.minor == Some(place.minor));
    let instance = gpu.zip(place.mig).and_then(|(gpu, ids)| {
        gpu.mig
            .instances()?
            .iter()
            .find(|instance| (instance.gpu_instance_id, instance.compute_instance_id) == ids)
    });
    let files = gpu
        .zip(instance)
        .and_then(|(gpu, instance)| type_name::mig_files(gpu, instance))
        .unwrap_or_else(|| format!("/dev/nvidia{}", place.minor));
    IndexEntry {
        index,
        files: files.split(',').map(str::to_owned).collect(),
        minor: Some(place.minor),
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
