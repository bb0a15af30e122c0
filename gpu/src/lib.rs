//! What a GPU is, and how to ask for it.
//!
//! The crate is used inside `slurmd` and `slurmctld` plugins, so it has few dependencies, logs
//! nothing, never panics by design and hands every fault back as a value that names the GPU and
//! the call. Unsafe code lives in [`nvml`] alone.
//!
//! | module        | what it holds                                                       |
//! |---------------|---------------------------------------------------------------------|
//! | [`pci`]       | [`PciAddress`]                                                      |
//! | [`cpuset`]    | [`CpuSet`], Linux CPU lists and NVML's bit masks                    |
//! | [`model`]     | [`Gpu`], [`MigInstance`], [`Inventory`], [`DeviceFault`]            |
//! | [`type_name`] | Slurm's GRES type, unique id and file list of a GPU or MIG device    |
//! | [`sysfs`]     | NUMA node, local CPUs and PCIe path of a device                      |
//! | [`locality`]  | which CPUs are near a GPU                                           |
//! | [`links`]     | Slurm's `Links` vector                                              |
//! | [`index_map`] | the published map from GRES index to device                         |
//! | [`run_file`]  | small files below `/run`, written whole and safely                  |
//! | [`mig_minors`] | which MIG instance a capability device belongs to                  |
//! | [`nvml`]      | NVML by `dlopen`, discovery and sampling under deadlines            |

#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

pub mod affinity;
pub mod cpuset;
pub mod index_map;
pub mod links;
pub mod locality;
pub mod mig_minors;
pub mod model;
#[allow(unsafe_code)]
pub mod nvml;
pub mod pci;
pub mod run_file;
pub mod sysfs;
pub mod type_name;

pub use cpuset::CpuSet;
pub use model::{
    DeviceFault, FaultKind, Gpu, Inventory, MigAttributes, MigInstance, MigState, Note, NvLink,
    RemoteEnd,
};
pub use pci::PciAddress;
