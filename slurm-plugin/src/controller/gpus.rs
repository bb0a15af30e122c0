//! The gpu gres of nodes and jobs in slurmctld.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

use slurm_headers::internal::{self, bitstr_t, gres_job_state_t, gres_node_state_t, gres_state_t};

use crate::bitstring::View;
use crate::list::{self, RawList};
use crate::memory::SlurmString;

/// Slurm's number of the gpu gres.
#[must_use]
pub fn gpu_plugin_id() -> u32 {
    static ID: OnceLock<u32> = OnceLock::new();
    *ID.get_or_init(|| {
        let name = SlurmString::new("gpu");
        // SAFETY: reads the string.
        unsafe { internal::gres_build_id(name.as_ptr()) }
    })
}

/// The gpu states of a list of gres.
///
/// # Safety
/// `list` is NULL or a live list of `gres_state_t` whose data is of type `T`.
unsafe fn states<'list, T: 'list>(list: RawList) -> impl Iterator<Item = &'list T> {
    let gpu = gpu_plugin_id();
    // SAFETY: by this function's contract.
    unsafe { list::elements::<gres_state_t>(list) }.filter_map(move |state| {
        // SAFETY: a live element; its data is NULL or of the list's type.
        unsafe {
            let state = state.as_ref();
            if state.plugin_id != gpu {
                return None;
            }
            state.gres_data.cast::<T>().as_ref()
        }
    })
}

/// The GPUs of a node.
#[derive(Clone, Copy, Debug)]
pub struct Gpus<'hook>(Option<NonNull<gres_node_state_t>>, PhantomData<&'hook ()>);

impl Gpus<'_> {
    /// # Safety
    /// `list` is NULL or the live gres list of a node.
    pub(super) unsafe fn of_node(list: RawList) -> Self {
        // SAFETY: a node's list holds gres_node_state_t.
        let state = unsafe { states::<gres_node_state_t>(list) }.next();
        Self(state.map(NonNull::from), PhantomData)
    }

    fn state(&self) -> Option<&gres_node_state_t> {
        // SAFETY: live by the contract of `of_node`.
        self.0.map(|state| unsafe { &*state.as_ptr() })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.state().map_or(0, |state| {
            u32::try_from(state.gres_cnt_avail).unwrap_or(u32::MAX)
        })
    }

    /// (Slurm's number of the type, how many), for those that have a type.
    #[must_use]
    pub fn types(&self) -> Vec<(u32, u32)> {
        let Some(state) = self.state() else {
            return Vec::new();
        };
        let counts = usize::from(state.type_cnt);
        // SAFETY: arrays of so many elements, or NULL.
        unsafe {
            array(state.type_id, counts)
                .iter()
                .zip(array(state.type_cnt_avail, counts))
                .map(|(kind, count)| (*kind, u32::try_from(*count).unwrap_or(u32::MAX)))
                .collect()
        }
    }

    /// The type of each GPU by its bit; empty where GPUs have no files.
    #[must_use]
    pub fn type_by_bit(&self) -> Vec<u32> {
        let mut types = Vec::new();
        let Some(state) = self.state() else {
            return types;
        };
        let count = usize::from(state.topo_cnt);
        // SAFETY: arrays of so many elements, or NULL.
        let (bitmaps, kinds) = unsafe {
            (
                array(state.topo_gres_bitmap, count),
                array(state.topo_type_id, count),
            )
        };
        for (bitmap, kind) in bitmaps.iter().zip(kinds) {
            // SAFETY: NULL or a live bitmap of the node's.
            let Some(bits) = (unsafe { View::new(*bitmap) }) else {
                continue;
            };
            if types.len() < bits.len() {
                types.resize(bits.len(), 0);
            }
            for bit in bits.ones() {
                if let Some(slot) = types.get_mut(bit) {
                    *slot = *kind;
                }
            }
        }
        types
    }

    /// The bits of those that jobs have; `None` where GPUs have no files.
    #[must_use]
    pub fn taken(&self) -> Option<View<'_>> {
        // SAFETY: NULL or a live bitmap of the node's.
        unsafe { View::new(self.state()?.gres_bit_alloc) }
    }
}

/// What a job has of the GPUs of each of its nodes, by the node's place among them: how many, of which type, and
/// their bits where they have files.
///
/// # Safety
/// `list` is NULL or the live list of a job's allocated gres.
pub(super) unsafe fn allocated<'list>(
    list: RawList,
    place: usize,
) -> impl Iterator<Item = (u32, u32, Option<View<'list>>)> {
    // SAFETY: a job's list holds gres_job_state_t.
    unsafe { states::<gres_job_state_t>(list) }.filter_map(move |state| {
        let nodes = usize::try_from(state.node_cnt).unwrap_or(0);
        // SAFETY: arrays of an element a node, or NULL.
        let (counts, bitmaps) = unsafe {
            (
                array(state.gres_cnt_node_alloc, nodes),
                array::<*mut bitstr_t>(state.gres_bit_alloc, nodes),
            )
        };
        let count = counts.get(place).copied().filter(|count| *count > 0)?;
        // SAFETY: NULL or a live bitmap of the job's.
        let bits = bitmaps
            .get(place)
            .and_then(|bits| unsafe { View::new(*bits) });
        Some((
            u32::try_from(count).unwrap_or(u32::MAX),
            state.type_id,
            bits,
        ))
    })
}

/// What a job asks of GPUs of one type.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct GpuAsk {
    /// Slurm's number of the type; 0: any.
    pub kind: u32,
    /// `--gpus`.
    pub per_job: u64,
    /// `--gpus-per-node`, `--gres`.
    pub per_node: u64,
    /// `--gpus-per-socket`.
    pub per_socket: u64,
    /// `--gpus-per-task`.
    pub per_task: u64,
    /// `--cpus-per-gpu`, or the partition's default.
    pub cpus: u32,
    /// `--mem-per-gpu`, or the partition's default, in MiB.
    pub memory: u64,
}

/// What a job asks of GPUs, an item a type.
///
/// # Safety
/// `list` is NULL or the live list of a job's requested gres.
pub(super) unsafe fn asked(list: RawList) -> Vec<GpuAsk> {
    // SAFETY: a job's list holds gres_job_state_t.
    unsafe { states::<gres_job_state_t>(list) }
        .map(|state| {
            let or = |own: u64, default: u64| if own == 0 { default } else { own };
            let cpus = or(state.cpus_per_gres.into(), state.def_cpus_per_gres.into());
            GpuAsk {
                kind: state.type_id,
                per_job: state.gres_per_job,
                per_node: state.gres_per_node,
                per_socket: state.gres_per_socket,
                per_task: state.gres_per_task,
                cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
                memory: or(state.mem_per_gres, state.def_mem_per_gres),
            }
        })
        .collect()
}

/// # Safety
/// `first` is NULL or an array of `count` elements that lives as long as `'a`.
unsafe fn array<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts(first, count) }
}
