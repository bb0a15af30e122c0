//! `[[process]]`: who uses a device.

use serde::{Deserialize, Serialize};

/// A process, or all processes of a name, on a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Board position of the device.
    pub device: usize,
    /// GPU instance, for a process on a MIG device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gi: Option<u32>,
    /// Compute instance, for a process on a MIG device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci: Option<u32>,
    /// This process, alive or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Every live process with this `/proc/PID/comm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// With `comm`: only if `/proc/PID/cgroup` contains this, for example a Slurm node name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Device memory held by each of them, in MiB.
    #[serde(default)]
    pub gpu_memory_mib: u64,
    /// Share of time with a kernel running, in percent.
    #[serde(default)]
    pub sm_util: u32,
    /// Share of time with memory traffic, in percent.
    #[serde(default)]
    pub mem_util: u32,
    /// Encoder share, in percent.
    #[serde(default)]
    pub enc_util: u32,
    /// Decoder share, in percent.
    #[serde(default)]
    pub dec_util: u32,
    /// Which list it is in.
    #[serde(default)]
    pub kind: ProcessKind,
}

/// NVML's lists of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessKind {
    /// CUDA.
    #[default]
    Compute,
    /// OpenGL, Vulkan and such.
    Graphics,
    /// CUDA through an MPS server.
    Mps,
}
