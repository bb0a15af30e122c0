//! What a sample is, and what it is made by.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::model::{DeviceFault, Note};
use crate::nvml::error::Error;
use crate::nvml::worker::Hung;
use crate::pci::PciAddress;

/// What a sample is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Energy counter and power.
    pub energy: bool,
    /// Processes and their memory.
    pub processes: bool,
    /// Utilisation by process.
    pub utilization: bool,
}

/// How a sampler goes about it.
#[derive(Clone, Debug)]
pub struct SamplerOptions {
    /// The NVML library; `None`: the system's.
    pub library: Option<PathBuf>,
    /// What to ask for.
    pub want: Want,
    /// A sample younger than this is handed out again.
    pub min_age: Duration,
    /// Keep NVML initialised between samples?
    pub keep_open: bool,
}

/// All GPUs at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When, by the monotonic clock.
    pub at: Instant,
    /// When, by the wall clock.
    pub wall: SystemTime,
    /// One entry per NVML index.
    pub gpus: Vec<Result<GpuSample, DeviceFault>>,
}

/// One GPU at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSample {
    /// NVML index.
    pub index: u32,
    /// N of `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// Its UUID.
    pub uuid: String,
    /// Its address.
    pub pci: PciAddress,
    /// Energy since the driver was loaded, in mJ; `None` when the GPU has no counter.
    pub energy_mj: Option<u64>,
    /// Power in mW.
    pub power_mw: Option<u32>,
    /// Its MIG devices' parts of it, in NVML's order; empty when energy is not wanted or MIG is off.
    pub mig_shares: Vec<MigShare>,
    /// Its processes, one entry per process and MIG device, by process id.
    pub processes: Vec<ProcessUsage>,
    /// Calls that failed though the GPU has what they ask for.
    pub notes: Vec<Note>,
}

/// A MIG device's part of its GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigShare {
    /// GPU instance id.
    pub gpu_instance_id: u32,
    /// Compute instance id within the GPU instance.
    pub compute_instance_id: u32,
    /// Its compute slices.
    pub slices: u32,
    /// The most compute slices that the GPU can be cut into: 7 on an A100 or H100, 4 on an A30.
    pub of: u32,
}

/// One process on one GPU or MIG device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Process id, in the host's namespace.
    pub pid: u32,
    /// GPU and compute instance, when it runs on a MIG device.
    pub mig: Option<(u32, u32)>,
    /// GPU memory in bytes; `None` when NVML does not say.
    pub memory_bytes: Option<u64>,
    /// Mean SM utilisation in percent since the sample before; `None` when NVML does not say.
    pub sm_percent: Option<u32>,
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// NVML cannot be loaded or initialised, or does not count its GPUs.
    #[error(transparent)]
    Nvml(#[from] Error),
    /// A call hangs.
    #[error(transparent)]
    Hung(#[from] Hung),
}
