//! A libnvidia-ml.so.1 without a GPU: it speaks NVML's C ABI and answers from a scenario file.
//!
//! Two faces. The cdylib is loaded by slurmd, slurmstepd, exporters and anything else that opens
//! NVML. The rlib is used by test harnesses: [`scenario`] builds and writes scenario files,
//! [`board`] resolves them, [`fixture`] makes the matching /sys, /proc and /dev, [`calls`] reads
//! back which NVML calls each process made.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod abi;
pub mod board;
pub mod calls;
pub mod cpulist;
pub mod energy;
pub mod error;
pub mod fixture;
mod live;
pub mod pci;
pub mod scenario;
mod state;
pub mod status;

pub use board::Board;
pub use error::Error;
pub use scenario::Scenario;
