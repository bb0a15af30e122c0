//! What a health check looks at: ECC, rows and pages, Xids, violations.

use serde::{Deserialize, Serialize};

/// ECC error counts since the driver was loaded and over the board's life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ecc {
    /// Since the driver was loaded.
    #[serde(rename = "volatile")]
    pub since_load: EccCounts,
    /// Over the board's life.
    pub aggregate: EccCounts,
}

/// ECC error counts by outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EccCounts {
    /// Corrected (single-bit) errors.
    pub corrected: EccSites,
    /// Uncorrected (double-bit) errors.
    pub uncorrected: EccSites,
}

/// ECC error counts by place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EccSites {
    /// L1 cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub l1_cache: u64,
    /// L2 cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub l2_cache: u64,
    /// Device memory (DRAM).
    #[serde(skip_serializing_if = "is_zero")]
    pub device_memory: u64,
    /// Register file.
    #[serde(skip_serializing_if = "is_zero")]
    pub register_file: u64,
    /// Texture memory.
    #[serde(skip_serializing_if = "is_zero")]
    pub texture_memory: u64,
    /// Converged barrier unit.
    #[serde(skip_serializing_if = "is_zero")]
    pub cbu: u64,
    /// SRAM as a whole, as newer products count it.
    #[serde(skip_serializing_if = "is_zero")]
    pub sram: u64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl EccSites {
    /// All places together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.l1_cache
            + self.l2_cache
            + self.device_memory
            + self.register_file
            + self.texture_memory
            + self.cbu
            + self.sram
    }
}

/// Remapped memory rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RemappedRows {
    /// Because of corrected errors.
    pub corrected: u32,
    /// Because of uncorrected errors.
    pub uncorrected: u32,
    /// A remapping waits for a reset.
    pub pending: bool,
    /// A remapping has failed.
    pub failed: bool,
}

/// Memory banks by how many spare rows are left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RowHistogram {
    /// All spare rows left.
    pub max: u32,
    /// Many.
    pub high: u32,
    /// Some.
    pub partial: u32,
    /// Few.
    pub low: u32,
    /// None.
    pub none: u32,
}

/// Time lost to a limit since the driver was loaded, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Violations {
    /// Power limit.
    pub power: u64,
    /// Temperature limit.
    pub thermal: u64,
    /// Waiting for other devices in sync boost.
    pub sync_boost: u64,
    /// Board limit.
    pub board_limit: u64,
    /// Low utilisation.
    pub low_utilization: u64,
    /// Reliability limit.
    pub reliability: u64,
    /// Below application clocks.
    pub total_app_clocks: u64,
    /// Below base clocks.
    pub total_base_clocks: u64,
}

/// A critical Xid error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xid {
    /// For example 79, "GPU has fallen off the bus".
    pub code: u64,
    /// When it happens, in seconds since 1970. Default: when the entry appears in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_unix: Option<f64>,
    /// GPU instance it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gi: Option<u32>,
    /// Compute instance it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci: Option<u32>,
}
