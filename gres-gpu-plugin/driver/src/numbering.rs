//! Which GPU stands behind each gres index, as slurmd has numbered them.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu::mig_minors::MigMinors;
use gres_gpu_core::index::{self, DeviceFile, Place};
use slurm_plugin::gres;

/// The numbering as it was last seen.
static NUMBERED: Mutex<Vec<Option<Place>>> = Mutex::new(Vec::new());

fn numbered() -> MutexGuard<'static, Vec<Option<Place>>> {
    NUMBERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What stands behind each gres index, in slurmd; `None` for an index that is no GPU of NVIDIA's. Empty
/// before slurmd has numbered its GPUs.
///
/// Slurm is asked until it has numbered its GPUs and then no more: its list may be freed at any time by
/// a reconfiguration of 22.05. It waits while slurmd loads its gres: not to be called by a hook that
/// slurmd calls meanwhile.
#[must_use]
pub fn places() -> Vec<Option<Place>> {
    let known = numbered().clone();
    if !known.is_empty() {
        return known;
    }
    // The lock is free meanwhile: Slurm holds its own while it unloads plugins, and `forget` takes ours.
    let asked = ask();
    numbered().clone_from(&asked);
    asked
}

/// Asks Slurm now.
pub(crate) fn ask() -> Vec<Option<Place>> {
    let devices = gres::devices();
    let files: Vec<DeviceFile<'_>> = devices
        .iter()
        .map(|device| DeviceFile {
            index: device.index,
            path: &device.path,
        })
        .collect();
    // Without a table there is no MIG.
    let table = MigMinors::read(Path::new("/proc")).unwrap_or_default();
    index::places(&files, &table)
}

/// Asks Slurm again next time: its configuration is read anew.
pub fn forget() {
    numbered().clear();
}
