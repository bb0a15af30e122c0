//! MIG: what a device can be cut into, and how it is cut.

use serde::{Deserialize, Serialize};

/// A GPU instance profile that the device offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigProfile {
    /// For example `1g.10gb`.
    pub name: String,
    /// NVML's `profileId` on this product, for example 19.
    pub id: u32,
    /// Compute slices, of 7.
    pub slices: u32,
    /// Memory slices, of 8: how long a placement is.
    pub memory_slices: u32,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// How many fit on an empty device.
    pub instances: u32,
    /// Copy engines.
    #[serde(default)]
    pub copy_engines: u32,
    /// Video decoders.
    #[serde(default)]
    pub decoders: u32,
    /// Video encoders.
    #[serde(default)]
    pub encoders: u32,
    /// JPEG decoders.
    #[serde(default)]
    pub jpeg: u32,
    /// Optical flow accelerators.
    #[serde(default)]
    pub ofa: u32,
}

/// One MIG device: a compute instance in a GPU instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigInstance {
    /// Profile of the GPU instance, for example `3g.40gb`.
    pub profile: String,
    /// GPU instance ID. Entries with equal `gi` share a GPU instance.
    pub gi: u32,
    /// Compute instance ID in it.
    #[serde(default)]
    pub ci: u32,
    /// Slices of this compute instance. Default: all of the GPU instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_slices: Option<u32>,
    /// First memory slice. Default: behind the instance before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u32>,
    /// `MIG-...`. Default: made from the device's UUID and the IDs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Default: the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Default: the sum over the processes on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_mib: Option<u64>,
    /// Default: the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiprocessors: Option<u32>,
}
