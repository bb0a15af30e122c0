//! NVLink and fabric.

use serde::{Deserialize, Serialize};

use crate::status::Status;

/// A device's NVLinks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NvLink {
    /// NVLink generation, 1 to 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Speed of a link in each direction, in MB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mb_per_s: Option<u32>,
    /// What is at the other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteKind>,
    /// PCI address at the other end, one a link; the length is the number of links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
    /// Links that are inactive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<Vec<u32>>,
    /// Error counters of single links; the others are 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<LinkErrors>>,
}

/// What an NVLink ends at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteKind {
    /// Another GPU.
    Gpu,
    /// An NPU of a POWER machine.
    Ibmnpu,
    /// An NVSwitch.
    Switch,
    /// Not known to NVML.
    Unknown,
}

/// Error counters of one NVLink.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkErrors {
    /// Which link.
    pub link: u32,
    /// Replays.
    pub replay: u64,
    /// Recoveries.
    pub recovery: u64,
    /// Flit CRC errors.
    pub crc_flit: u64,
    /// Data CRC errors.
    pub crc_data: u64,
    /// Data ECC errors.
    pub ecc_data: u64,
}

/// The NVLink fabric that the device belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fabric {
    /// Registration with the fabric manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<FabricState>,
    /// Result of the registration, once completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Clique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clique_id: Option<u32>,
    /// 32 hexadecimal digits, dashes ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_uuid: Option<String>,
    /// NVML's bit fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_mask: Option<u32>,
    /// NVML's `NVML_GPU_FABRIC_HEALTH_SUMMARY_*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_summary: Option<u8>,
}

/// NVML's `NVML_GPU_FABRIC_STATE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FabricState {
    /// No fabric.
    NotSupported,
    /// Registration not begun.
    NotStarted,
    /// Registration under way.
    InProgress,
    /// Registered, or failed with `status`.
    Completed,
}
