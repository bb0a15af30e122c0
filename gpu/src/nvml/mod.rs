//! NVML by `dlopen`.
//!
//! * [`Symbols`] opens the library and resolves each function when it is first called.
//! * [`Session`] is NVML initialised; [`Device`] is one GPU or MIG device within it.
//! * [`Worker`] and [`bounded`] run a closure on a thread under a deadline and name the call that
//!   hangs.
//! * [`discover`] makes the [`Inventory`](crate::Inventory), [`Sampler`] the usage and energy
//!   samples; neither waits longer than its deadline.

mod discover;
pub mod error;
mod sampler;
mod session;
mod symbols;
mod trace;
mod worker;

pub use discover::{DiscoverError, DiscoverOptions, discover};
pub use error::{Error, code_words};
pub use sampler::{
    GpuSample, MigShare, ProcessUsage, Sample, SampleError, Sampler, SamplerOptions, Want,
};
pub use session::{Clock, Device, Memory, MigMode, ProcessMemory, ProcessUtilization, Session};
pub use symbols::{Call, Symbols};
pub use trace::Trace;
pub use worker::{Hung, Worker, bounded, reset};
