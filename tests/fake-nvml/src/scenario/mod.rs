//! The scenario file: what the fake machine has, and how it misbehaves.
//!
//! Everything is optional. A scenario usually names a built-in `board` and changes a few keys of
//! a few devices; board files have the same schema. A getter whose key is set nowhere answers
//! `NVML_ERROR_NOT_SUPPORTED`. README.md shows every key.

mod device;
mod fault;
mod health;
mod links;
mod merge;
mod mig;
mod process;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use device::{ClockReason, ClockSet, Cycle, Device, Pcie};
pub(crate) use fault::unversioned;
pub use fault::{Fault, FaultMode};
pub use health::{Ecc, EccCounts, EccSites, RemappedRows, RowHistogram, Violations, Xid};
pub use links::{Fabric, FabricState, LinkErrors, NvLink, RemoteKind};
pub(crate) use merge::merged;
pub use mig::{MigInstance, MigProfile};
pub use process::{Process, ProcessKind};

use crate::board::Board;
use crate::error::Error;
use crate::status::Status;

/// A scenario file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Built-in board that this scenario starts from; see [`crate::board::names`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
    /// Keep only the board's first so many devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<usize>,
    /// Mixed into generated UUIDs and serial numbers, so that nodes with equal boards differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid_seed: Option<String>,
    /// What `nvmlSystemGetDriverVersion` says, and /proc/driver/nvidia/version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// What `nvmlSystemGetNVMLVersion` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvml_version: Option<String>,
    /// What `nvmlSystemGetCudaDriverVersion` says: 1000 × major + 10 × minor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_driver_version: Option<i32>,
    /// `nvmlInit` fails with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_error: Option<Status>,
    /// How long `nvmlInit` takes, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_latency_us: Option<u64>,
    /// How long every other call takes, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
    /// How long single calls take, by function name, in microseconds; wins over `latency_us`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub latency: BTreeMap<String, u64>,
    /// Each call appends a line `pid call device comm` to this file; see [`crate::calls`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_calls: Option<PathBuf>,
    /// Where settings such as application clocks are kept. Default: the scenario file's path
    /// with `.state` appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_file: Option<PathBuf>,
    /// Let processes without root change settings; the real library refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unprivileged_changes: Option<bool>,
    /// Distance of two process utilisation samples, in milliseconds. Default 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_period_ms: Option<u64>,
    /// Stop the fake's clock at this time, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze_unix: Option<f64>,
    /// The machine around the devices.
    #[serde(skip_serializing_if = "Machine::is_default")]
    pub machine: Machine,
    /// Keys for all devices; `[[device]]` wins.
    #[serde(skip_serializing_if = "Device::is_default")]
    pub every_device: Device,
    /// Keys for single devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device: Vec<Device>,
    /// Calls that fail or hang.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fault: Vec<Fault>,
    /// Processes on the devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub process: Vec<Process>,
}

/// The machine around the devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// Number of CPUs (hardware threads).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
    /// Value for `HWLOC_SYNTHETIC` that gives the same CPUs and NUMA nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hwloc_synthetic: Option<String>,
    /// What `nvmlDeviceGetCpuAffinity` knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_affinity: Option<CpuAffinity>,
    /// PCI addresses of the NVSwitches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvswitches: Option<Vec<String>>,
}

impl Machine {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What the CPU affinity calls answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuAffinity {
    /// The CPUs near the device: its `cpus`.
    Local,
    /// All CPUs of the machine, as in many virtual machines.
    Machine,
    /// `NVML_ERROR_NOT_SUPPORTED`.
    NotSupported,
}

impl Scenario {
    /// A scenario that is just the built-in board of this name.
    #[must_use]
    pub fn board(name: &str) -> Self {
        Self {
            board: Some(name.into()),
            ..Self::default()
        }
    }

    /// Reads a scenario from text.
    ///
    /// # Errors
    /// [`Error::Parse`] with line and column; nothing is resolved yet.
    pub fn parse(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| Error::parse(text, &error))
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Parse`], naming the file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            path: path.into(),
            source,
        })?;
        Self::parse(&text).map_err(|error| error.of(&path.display().to_string()))
    }

    /// The `[[device]]` entry of this board position, made if there is none.
    pub fn device_mut(&mut self, index: usize) -> &mut Device {
        let found = self
            .device
            .iter()
            .position(|device| device.index == Some(index));
        let position = found.unwrap_or(self.device.len());
        if found.is_none() {
            self.device.push(Device {
                index: Some(index),
                ..Device::default()
            });
        }
        &mut self.device[position]
    }

    /// Fills in the board and the defaults and checks everything.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the key.
    pub fn resolve(&self) -> Result<Board, Error> {
        Board::new(self)
    }

    /// The scenario as TOML.
    ///
    /// # Panics
    /// Never: every scenario has a TOML form.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a scenario always has a TOML form")
    }

    /// Writes the file so that a reader sees the old or the new scenario, never a part. The file
    /// is world-readable: every user's process must be able to load it.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write_atomically(&self, path: &Path) -> Result<(), Error> {
        let at = |source| Error::File {
            path: path.into(),
            source,
        };
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(name);
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::File::create(&temporary)?;
            file.write_all(self.to_toml().as_bytes())?;
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            file.set_permissions(mode)?;
            std::fs::rename(&temporary, path)
        };
        write().map_err(at)
    }
}
