//! The device model: what discovery finds on a node.

use std::fmt;
use std::time::Duration;

use crate::cpuset::CpuSet;
use crate::nvml::error::code_words;
use crate::pci::PciAddress;

/// One physical GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// NVML's index: the order of PCI addresses.
    pub index: u32,
    /// N of `/dev/nvidiaN`; `None` when NVML knows none (a note says why).
    pub minor: Option<u32>,
    /// `GPU-…`.
    pub uuid: String,
    /// Where it sits.
    pub pci: PciAddress,
    /// NVML's name, as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Memory in MiB; `None` when NVML does not say.
    pub memory_mib: Option<u64>,
    /// MIG mode and instances.
    pub mig: MigState,
    /// CPUs near the GPU as NVML gives them; `None` when the call fails or gives none.
    pub cpu_affinity: Option<CpuSet>,
    /// The GPU's NVLinks that exist, active or not; empty on a board without NVLink.
    pub nvlinks: Vec<NvLink>,
    /// Calls that failed without costing the GPU its place here.
    pub notes: Vec<Note>,
}

impl Gpu {
    /// `/dev/nvidiaN`, when the minor number is known.
    #[must_use]
    pub fn device_file(&self) -> Option<String> {
        self.minor.map(crate::type_name::device_file)
    }
}

/// A call that failed beside a GPU that otherwise answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The NVML function, or the file that could not be read.
    pub call: &'static str,
    /// What it said.
    pub words: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.words)
    }
}

/// MIG mode of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigState {
    /// The GPU or its driver knows no MIG.
    Unsupported,
    /// Off.
    Disabled,
    /// Off now, on from the next GPU reset.
    PendingEnable,
    /// On, with the instances made so far (perhaps none).
    Enabled(Vec<MigInstance>),
    /// On now, off from the next GPU reset.
    PendingDisable(Vec<MigInstance>),
}

impl MigState {
    /// Is MIG in force now?
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.instances().is_some()
    }

    /// The instances when MIG is in force, `None` otherwise.
    #[must_use]
    pub fn instances(&self) -> Option<&[MigInstance]> {
        match self {
            Self::Enabled(instances) | Self::PendingDisable(instances) => Some(instances),
            Self::Unsupported | Self::Disabled | Self::PendingEnable => None,
        }
    }
}

/// One MIG device: a compute instance within a GPU instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigInstance {
    /// NVML's index of the MIG device within its GPU.
    pub index: u32,
    /// NVML's UUID of the MIG device, whatever its form.
    pub uuid: String,
    /// GPU instance id.
    pub gpu_instance_id: u32,
    /// Compute instance id within the GPU instance.
    pub compute_instance_id: u32,
    /// Profile, as `1g.10gb` or `1c.3g.40gb`: from NVML's name, else from the attributes.
    pub profile: String,
    /// Minor number of the GPU instance's capability device.
    pub gi_minor: Option<u32>,
    /// Minor number of the compute instance's capability device.
    pub ci_minor: Option<u32>,
    /// Memory in MiB; `None` when NVML does not say.
    pub memory_mib: Option<u64>,
    /// NVML's name of the MIG device, as `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
    pub nvml_name: Option<String>,
    /// NVML's attributes of the MIG device.
    pub attributes: Option<MigAttributes>,
}

/// What a MIG device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigAttributes {
    /// Slices of the GPU instance.
    pub gpu_slices: u32,
    /// Slices of the compute instance.
    pub compute_slices: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
}

/// One NVLink of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvLink {
    /// Link number.
    pub link: u32,
    /// Is it up?
    pub active: bool,
    /// What it leads to.
    pub remote: RemoteEnd,
}

/// The far end of an NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteEnd {
    /// A GPU.
    Gpu(PciAddress),
    /// An NVSwitch; its address where NVML knows one.
    Switch(Option<PciAddress>),
    /// A CPU with NVLink (POWER9).
    Cpu,
    /// Not known, or the link is down.
    Unknown,
}

/// What is on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Driver version, as `550.54.15`; empty when NVML does not say.
    pub driver_version: String,
    /// Version of the NVML library; empty when NVML does not say.
    pub nvml_version: String,
    /// One entry per NVML index: a GPU, or what is wrong with it.
    pub gpus: Vec<Result<Gpu, DeviceFault>>,
    /// Trouble that concerns no single GPU (a version call, a hung shutdown).
    pub notes: Vec<Note>,
}

impl Inventory {
    /// The GPUs that answered.
    pub fn healthy(&self) -> impl Iterator<Item = &Gpu> {
        self.gpus.iter().filter_map(|gpu| gpu.as_ref().ok())
    }

    /// The GPUs that did not.
    pub fn faults(&self) -> impl Iterator<Item = &DeviceFault> {
        self.gpus.iter().filter_map(|gpu| gpu.as_ref().err())
    }
}

/// What is wrong with one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFault {
    /// NVML index.
    pub index: u32,
    /// Its address, when that much was learnt.
    pub pci: Option<PciAddress>,
    /// Its UUID, when that much was learnt.
    pub uuid: Option<String>,
    /// The NVML function that failed, hung or was not asked.
    pub call: &'static str,
    /// In what way.
    pub kind: FaultKind,
}

/// In what way a GPU failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// NVML answered with this return code.
    Nvml(u32),
    /// The call had not returned after this time.
    Hung(Duration),
    /// Not asked, since NVML hung on these GPUs before.
    NotAsked {
        /// NVML indices of the GPUs on which it hung.
        hung: Vec<u32>,
    },
    /// The NVML library lacks the function.
    MissingSymbol,
    /// NVML's answer made no sense.
    Malformed(String),
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {}", self.index)?;
        if let Some(pci) = self.pci {
            write!(f, " ({pci})")?;
        }
        match &self.kind {
            FaultKind::Nvml(code) => {
                write!(
                    f,
                    ": {}: {} (NVML code {code})",
                    self.call,
                    code_words(*code)
                )
            }
            FaultKind::Hung(after) => {
                write!(
                    f,
                    ": {} has not returned after {:.1} s",
                    self.call,
                    after.as_secs_f64()
                )
            }
            FaultKind::NotAsked { hung } => {
                write!(f, ": not asked, since NVML hung on GPU")?;
                for (n, index) in hung.iter().enumerate() {
                    write!(f, "{}{index}", if n == 0 { " " } else { ", " })?;
                }
                write!(f, ", last in {}", self.call)
            }
            FaultKind::MissingSymbol => write!(f, ": the NVML library has no {}", self.call),
            FaultKind::Malformed(what) => write!(f, ": {}: {what}", self.call),
        }
    }
}

impl std::error::Error for DeviceFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_gpu_call_and_words() {
        let fault = |kind| DeviceFault {
            index: 6,
            pci: "0000:17:00.0".parse().ok(),
            uuid: None,
            call: "nvmlDeviceGetName",
            kind,
        };
        for (kind, words) in [
            (
                FaultKind::Nvml(15),
                "nvmlDeviceGetName: GPU is lost (NVML code 15)",
            ),
            (
                FaultKind::Hung(Duration::from_millis(10_040)),
                "nvmlDeviceGetName has not returned after 10.0 s",
            ),
            (
                FaultKind::NotAsked { hung: vec![2, 5] },
                "not asked, since NVML hung on GPU 2, 5, last in nvmlDeviceGetName",
            ),
            (
                FaultKind::MissingSymbol,
                "the NVML library has no nvmlDeviceGetName",
            ),
            (FaultKind::Malformed("odd".into()), "nvmlDeviceGetName: odd"),
        ] {
            assert_eq!(
                fault(kind).to_string(),
                format!("GPU 6 (0000:17:00.0): {words}")
            );
        }
    }
}
