//! Usage and energy, polled.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::error::Error;
use super::worker::Hung;
use crate::model::DeviceFault;
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
    /// Its processes, one entry per process and MIG device.
    pub processes: Vec<ProcessUsage>,
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

/// Samples all GPUs of the node, each read once per poll however many callers there are.
///
/// Made for a `static`; belongs to the process that uses it.
pub struct Sampler {
    options: SamplerOptions,
}

impl Sampler {
    /// A sampler; NVML is touched at the first sample.
    #[must_use]
    pub const fn new(options: SamplerOptions) -> Self {
        Self { options }
    }

    /// The cached sample when it is young enough, else a new one; never waits longer than
    /// `deadline`.
    ///
    /// # Errors
    /// There is none.
    pub fn sample(&self, deadline: Duration) -> Result<Arc<Sample>, SampleError> {
        let _ = (deadline, &self.options);
        Err(Error::Load("under construction".into()).into())
    }

    /// The last sample, however old.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<Sample>> {
        None
    }

    /// Closes NVML; the next sample opens it anew.
    ///
    /// # Errors
    /// Closing hangs.
    pub fn release(&self, deadline: Duration) -> Result<(), Hung> {
        let _ = deadline;
        Ok(())
    }

    /// Forgets everything, for a plugin's `fini` after `release`.
    pub fn reset(&self) {}
}
