//! Generic resources: records that a driver detects, the devices that Slurm made of them, and the
//! bitmap of a step.

use std::ptr;

use slurm_headers::internal;

use crate::bitstring::{Bitmap, View};
use crate::cstr;
use crate::list::{self, OwnedList};
use crate::loaded::Loaded;
use crate::memory::SlurmString;

pub use crate::compat::{GPU_FLAGS, MIG_FLAGS, MIG_HAS_LINKS, MIG_NAMED_BY_DEVICE};

/// The gpu gres, under its name in slurm.conf.
const GPU: &str = "gpu";

/// A detected GPU or MIG device, as a line of gres.conf would say it.
#[derive(Debug, Default)]
pub struct GpuRecord<'a> {
    /// `File=`, several separated by commas; `None` for a device that is counted but has no file.
    pub file: Option<&'a str>,
    /// `Type=`.
    pub type_name: Option<&'a str>,
    /// `Links=`.
    pub links: Option<&'a str>,
    /// By which CUDA knows a MIG device.
    pub unique_id: Option<&'a str>,
    /// `Cores=` in Slurm's abstract numbers, with the CPUs that they stand for. Both or neither:
    /// Slurm ends the daemon when it gets a bitmap without cores.
    pub cores: Option<(&'a SlurmString, &'a Bitmap)>,
    /// [`GPU_FLAGS`] or [`MIG_FLAGS`].
    pub flags: u32,
}

/// A list for [`append`], whose elements Slurm frees.
#[must_use]
pub fn new_list() -> Option<OwnedList> {
    OwnedList::new(Some(internal::slurm_destroy_gres_slurmd_conf))
}

/// Appends one GPU of a node with `cpu_count` CPUs. Slurm copies all of it.
///
/// A bitmap must lie within `cpu_count` bits: Slurm ends the daemon otherwise.
pub fn append(list: &OwnedList, record: &GpuRecord<'_>, cpu_count: u32) {
    let string = |text: Option<&str>| text.map(SlurmString::new);
    let pointer =
        |text: &Option<SlurmString>| text.as_ref().map_or(ptr::null_mut(), SlurmString::as_ptr);
    let (name, file, type_name, links, unique_id) = (
        string(Some(GPU)),
        string(record.file),
        string(record.type_name),
        string(record.links),
        string(record.unique_id),
    );
    let mut raw = internal::gres_slurmd_conf_t {
        config_flags: record.flags,
        count: 1,
        cpu_cnt: cpu_count,
        cpus: record
            .cores
            .map_or(ptr::null_mut(), |(cores, _)| cores.as_ptr()),
        cpus_bitmap: record
            .cores
            .map_or(ptr::null_mut(), |(_, cpus)| cpus.as_ptr()),
        file: pointer(&file),
        links: pointer(&links),
        name: pointer(&name),
        type_name: pointer(&type_name),
        unique_id: pointer(&unique_id),
        plugin_id: 0,
    };
    // SAFETY: a live list of such records; each pointer is NULL or lives to the end of this function,
    // and Slurm copies what it keeps.
    unsafe { crate::compat::add_gres_to_list(list.as_ptr(), &mut raw) };
}

/// A device file of the gpu gres under the number that Slurm gives it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Device {
    /// The gres index: the bit of this device in the bitmaps of jobs and steps. Several files may share
    /// one.
    pub index: usize,
    /// The file, `/dev/nvidia3`.
    pub path: String,
}

/// The device files of this node's gpu gres, in slurmd. Empty before slurmd has loaded its gres. It waits
/// while slurmd loads them.
///
/// The list is asked of Slurm's `gres/gpu` itself: `gres_g_get_devices` mixes those of all gres, each of
/// which counts from 0, and leaves out a file that it has listed before.
#[must_use]
pub fn devices() -> Vec<Device> {
    type GetDevices = unsafe extern "C" fn() -> list::RawList;
    // 22.05 shows its list while it fills it, under a lock that this takes.
    let _ = any();
    let Some(plugin) = Loaded::find(c"/gres_gpu.so") else {
        return Vec::new();
    };
    let Some(function) = plugin.symbol(c"gres_p_get_devices") else {
        return Vec::new();
    };
    // SAFETY: the function's type in each release (src/plugins/gres/gpu/gres_gpu.c).
    let get_devices: GetDevices = unsafe { std::mem::transmute(function) };
    // SAFETY: it takes no argument and gives a list of gres_device_t that stays the plugin's, or NULL.
    unsafe { list::elements::<internal::gres_device_t>(get_devices()) }
        .filter_map(|device| {
            // SAFETY: Slurm's elements are live while it holds its gres, which it does but for the
            // moment of a reconfiguration, whose thread calls us itself.
            let device = unsafe { device.as_ref() };
            // SAFETY: NULL or a string of the element.
            let path = unsafe { cstr::text(device.path) };
            Some(Device {
                index: usize::try_from(device.index).ok()?,
                path: path?.into_owned(),
            })
        })
        .collect()
}

/// Whether this node has any gres at all.
#[must_use]
pub fn any() -> bool {
    // SAFETY: takes no argument.
    unsafe { internal::gres_get_gres_cnt() > 0 }
}

/// Whether gres.conf asks for NVIDIA's GPUs: `AutoDetect=nvml` or `nvidia`.
#[must_use]
pub fn autodetects_nvidia() -> bool {
    // SAFETY: takes no argument.
    let flags = unsafe { internal::gres_get_autodetect_flags() };
    flags & crate::compat::AUTODETECT_NVIDIA != 0
}

/// The positions of gres/gpumem and gres/gpuutil in the TRES array of a process, in slurmstepd;
/// `None` for one that `AccountingStorageTRES` does not track.
#[must_use]
pub fn usage_positions() -> (Option<usize>, Option<usize>) {
    crate::compat::usage_positions()
}

/// `GpuFreqDef` of slurm.conf.
#[must_use]
pub fn gpu_freq_default() -> String {
    // SAFETY: Slurm gives a string of its allocator away, or NULL.
    unsafe { SlurmString::from_raw(internal::slurm_get_gpu_freq_def()) }.to_text()
}

/// The gres indices of the GPUs of a step; empty if it has none. Those of its job for one of Slurm's special
/// steps, which have no GPUs of their own.
///
/// # Safety
/// `step` is the live `stepd_step_rec_t` that Slurm hands to a hook.
#[must_use]
pub unsafe fn step_gpus(step: *const internal::stepd_step_rec_t) -> Vec<usize> {
    let name = SlurmString::new(GPU);
    // SAFETY: reads the string.
    let gpu = unsafe { internal::gres_build_id(name.as_ptr()) };
    // SAFETY: the step is live.
    let (whole_job, list) = unsafe {
        if (*step).step_id.step_id >= internal::SLURM_MAX_NORMAL_STEP_ID {
            (true, (*step).job_gres_list)
        } else {
            (false, (*step).step_gres_list)
        }
    };
    let mut indices = Vec::new();
    // SAFETY: NULL or a live list of the step's, which holds gres_state_t.
    for state in unsafe { list::elements::<internal::gres_state_t>(list) } {
        // SAFETY: a live element.
        let state = unsafe { state.as_ref() };
        if state.plugin_id != gpu || state.gres_data.is_null() {
            continue;
        }
        // SAFETY: not NULL, and of the type that the list says; on a node both hold one bitmap, its own
        // (`_accumulate_gres_device` in 22.05 src/common/gres.c, 24.11 src/interfaces/gres.c).
        let (nodes, bitmaps) = unsafe {
            if whole_job {
                let job = &*state.gres_data.cast::<internal::gres_job_state_t>();
                (job.node_cnt, job.gres_bit_alloc)
            } else {
                let step = &*state.gres_data.cast::<internal::gres_step_state_t>();
                (step.node_cnt, step.gres_bit_alloc)
            }
        };
        if nodes == 0 || bitmaps.is_null() {
            continue;
        }
        // SAFETY: an array of `nodes` bitmaps, each live or NULL.
        if let Some(bitmap) = unsafe { View::new(*bitmaps) } {
            indices.extend(bitmap.ones());
        }
    }
    indices.sort_unstable();
    indices.dedup();
    indices
}
