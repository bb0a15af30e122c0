//! `[every_device]` and `[[device]]`: all that NVML tells of a device.

use serde::{Deserialize, Serialize};

use super::{
    Ecc, Fabric, MigInstance, MigProfile, NvLink, RemappedRows, RowHistogram, Violations, Xid,
};

/// A device's keys. A key that is set nowhere makes its calls answer `NVML_ERROR_NOT_SUPPORTED`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Device {
    /// Board position, from 0; not NVML's index when a device before it is absent. Required in `[[device]]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Not on the bus: NVML does not enumerate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<bool>,
    /// Fallen off the bus: counted, but every call on it gives `NVML_ERROR_GPU_IS_LOST`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<bool>,
    /// Product name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// NVML's `NVML_BRAND_*`, for example 2 for Tesla and 14 for NVIDIA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brand: Option<u32>,
    /// NVML's `NVML_DEVICE_ARCH_*`, for example 9 for Hopper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<u32>,
    /// `GPU-...`. Default: made from the board, `uuid_seed` and the position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Board serial number. Default: made like the UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Part number of the board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board_part_number: Option<String>,
    /// VBIOS version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vbios_version: Option<String>,
    /// InfoROM image version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inforom_version: Option<String>,
    /// GSP firmware version. Default: the driver version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gsp_version: Option<String>,
    /// N of /dev/nvidiaN. Default: the position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// Module ID on the baseboard. Default: position + 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module_id: Option<u32>,
    /// PCI address, for example `0000:18:00.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// PCI addresses of the bridges above it, root port first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_bridges: Option<Vec<String>>,
    /// Device ID × 65536 + vendor ID, as NVML gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_device_id: Option<u32>,
    /// Subsystem ID in the same form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_subsystem_id: Option<u32>,
    /// NUMA node of the CPUs next to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<i32>,
    /// CPUs next to it, as a kernel list such as `0-63`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// CPUs of its socket. Default: `cpus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_cpus: Option<String>,
    /// NUMA node of the device's own memory, on coherent machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_numa_node: Option<u32>,
    /// CUDA compute capability, major and minor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_capability: Option<[i32; 2]>,
    /// CUDA cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Streaming multiprocessors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiprocessors: Option<u32>,
    /// Copy engines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_engines: Option<u32>,
    /// A display is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_active: Option<bool>,
    /// Persistence mode at start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence_mode: Option<bool>,
    /// NVML's `NVML_COMPUTEMODE_*` at start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_mode: Option<u32>,
    /// Memory, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Memory reserved for driver and firmware, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reserved_mib: Option<u64>,
    /// Memory in use, in MiB. Default: the sum over its processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used_mib: Option<u64>,
    /// Bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bus_width: Option<u32>,
    /// BAR1, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar1_mib: Option<u64>,
    /// BAR1 in use, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar1_used_mib: Option<u64>,
    /// Core temperature, in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<u32>,
    /// Memory temperature, in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_temperature_c: Option<u32>,
    /// Temperature of shutdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_c: Option<u32>,
    /// Temperature of hardware slowdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown_c: Option<u32>,
    /// Highest operating temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_max_c: Option<u32>,
    /// Highest memory temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max_c: Option<u32>,
    /// Fan speed; passively cooled products have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fan_percent: Option<u32>,
    /// Power draw, in watts; before a schedule begins, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// From each time (seconds since 1970) on, so many watts; ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_schedule: Option<Vec<(f64, f64)>>,
    /// Power that repeats; from its start on it wins over `power_schedule`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cycle: Option<Cycle>,
    /// Where the energy counter is 0. Default: first schedule entry, start of the cycle or boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_epoch_unix: Option<f64>,
    /// The energy counter, in millijoules, instead of the integral.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_mj: Option<u64>,
    /// Power limit at start. Default: the default limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_w: Option<f64>,
    /// Default power limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_default_limit_w: Option<f64>,
    /// Lowest limit that can be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_min_limit_w: Option<f64>,
    /// Highest limit that can be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_max_limit_w: Option<f64>,
    /// Percent. Default: the sum over its processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_util: Option<u32>,
    /// Percent. Default: the sum over its processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_util: Option<u32>,
    /// Percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder_util: Option<u32>,
    /// Percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder_util: Option<u32>,
    /// Percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jpeg_util: Option<u32>,
    /// Percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ofa_util: Option<u32>,
    /// Clocks that can be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_sets: Option<Vec<ClockSet>>,
    /// Graphics and SM clock now, if nothing is set lower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graphics_mhz: Option<u32>,
    /// Memory clock now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_mhz: Option<u32>,
    /// Video clock now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video_mhz: Option<u32>,
    /// Default application clock. Default: the highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_graphics_mhz: Option<u32>,
    /// Default memory clock. Default: the highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mem_mhz: Option<u32>,
    /// Highest video clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_video_mhz: Option<u32>,
    /// P-state: 0 is fastest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance_state: Option<u32>,
    /// Why the clocks are below the highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_event_reasons: Option<Vec<ClockReason>>,
    /// Time lost to limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violations: Option<Violations>,
    /// The PCIe link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<Pcie>,
    /// ECC is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc_mode: Option<bool>,
    /// ECC after the next reset. Default: as now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc_pending: Option<bool>,
    /// ECC error counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<Ecc>,
    /// So many SRAM errors that the board should be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sram_threshold_exceeded: Option<bool>,
    /// Addresses of pages retired after single-bit errors. Volta and older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired_pages_single: Option<Vec<u64>>,
    /// Addresses of pages retired after a double-bit error. Volta and older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired_pages_double: Option<Vec<u64>>,
    /// A page waits for a reset to be retired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired_pages_pending: Option<bool>,
    /// Remapped rows. Ampere and newer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remapped_rows: Option<RemappedRows>,
    /// Banks by spare rows. Ampere and newer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_histogram: Option<RowHistogram>,
    /// A memory channel waits for repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_repair_pending: Option<bool>,
    /// A TPC waits for repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpc_repair_pending: Option<bool>,
    /// NVML's `NVML_GPU_RECOVERY_ACTION_*`: 0 none, 1 reset, 2 reboot, 3 drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_action: Option<u32>,
    /// Critical errors, for the event API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xid: Option<Vec<Xid>>,
    /// NVLinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<NvLink>,
    /// NVLink fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// Has an NVLink-C2C to the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub c2c: Option<bool>,
    /// Number of C2C links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub c2c_links: Option<u32>,
    /// NVML's `NVML_DEVICE_ADDRESSING_MODE_*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addressing_mode: Option<u32>,
    /// MIG mode. Default: on if there are `mig` entries, else off; `mig_profiles` makes it known at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig_enabled: Option<bool>,
    /// MIG mode after the next reset. Default: as now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig_pending: Option<bool>,
    /// What it can be cut into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig_profiles: Option<Vec<MigProfile>>,
    /// How it is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<Vec<MigInstance>>,
}

impl Device {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Power that repeats for ever.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cycle {
    /// When the first cycle begins, in seconds since 1970.
    pub start_unix: f64,
    /// Seconds and watts, one after the other.
    pub steps: Vec<(f64, f64)>,
}

/// Graphics clocks that go with a memory clock: `max_mhz`, and down by `step_mhz` to `min_mhz`,
/// each rounded down to whole MHz.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockSet {
    /// Memory clock.
    pub mem_mhz: u32,
    /// Highest graphics clock.
    pub max_mhz: f64,
    /// Lowest graphics clock.
    pub min_mhz: f64,
    /// Distance of two clocks.
    pub step_mhz: f64,
}

impl ClockSet {
    /// The graphics clocks, highest first.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small clocks"
    )]
    pub fn graphics_mhz(&self) -> Vec<u32> {
        let mut clocks = Vec::new();
        let mut clock = self.max_mhz;
        while clock >= self.min_mhz && clock > 0.0 && clocks.len() < 4096 {
            clocks.push(clock as u32);
            if self.step_mhz <= 0.0 {
                break;
            }
            clock -= self.step_mhz;
        }
        clocks
    }
}

/// NVML's `nvmlClocksEventReason*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u64)]
pub enum ClockReason {
    /// Nothing runs.
    GpuIdle = 0x1,
    /// Application clocks are set.
    ApplicationsClocksSetting = 0x2,
    /// Power limit.
    SwPowerCap = 0x4,
    /// Temperature or power brake, halving the clocks.
    HwSlowdown = 0x8,
    /// Sync boost.
    SyncBoost = 0x10,
    /// Temperature, by software.
    SwThermalSlowdown = 0x20,
    /// Temperature, by hardware.
    HwThermalSlowdown = 0x40,
    /// External power brake.
    HwPowerBrakeSlowdown = 0x80,
    /// Display clocks.
    DisplayClockSetting = 0x100,
}

/// The PCIe link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pcie {
    /// Generation now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Lanes now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Highest generation of device and slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_generation: Option<u32>,
    /// Most lanes of device and slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_width: Option<u32>,
    /// Replays since reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replays: Option<u32>,
    /// Traffic from the device, in KB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_kb_per_s: Option<u32>,
    /// Traffic to the device, in KB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_kb_per_s: Option<u32>,
}
