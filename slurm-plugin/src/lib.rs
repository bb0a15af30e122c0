//! The safe floor of every sgpu plugin: what a Rust plugin needs inside slurmctld, slurmd,
//! slurmstepd and the clients, and nothing of what it decides.
//!
//! - [`guard`]: no panic of ours reaches Slurm's frames; a hook that keeps failing goes quiet;
//! - [`export`]: the macros that make each exported symbol;
//! - [`log`]: lines in Slurm's own log, always through the fixed format `%s`;
//! - [`canary`]: fields of known value, read before the first write to a struct of the host;
//! - [`node_files`]: the node's own files, for a task in a container;
//! - with the public headers: `spank`, the face of SPANK plugins;
//! - with the release's internal headers: `memory` that Slurm may free, `list`, `bitstring`, C strings,
//!   `gres`, `host` (which daemon this is), `controller` (slurmctld's tables).
//!
//! Without Slurm's headers the parts over its functions are absent and log lines go to standard
//! error, so that the pure parts build and test anywhere.
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

pub mod canary;
pub mod cstr;
pub mod export;
pub mod guard;
pub mod log;
pub mod node_files;

#[cfg(slurm_internal)]
pub mod bitstring;
#[cfg(slurm_internal)]
mod compat;
#[cfg(slurm_internal)]
pub mod controller;
#[cfg(slurm_internal)]
pub mod gres;
#[cfg(slurm_internal)]
pub mod host;
#[cfg(slurm_internal)]
pub mod list;
#[cfg(slurm_internal)]
mod loaded;
#[cfg(slurm_internal)]
pub mod memory;
#[cfg(slurm_public)]
pub mod spank;

// A plugin built with `panic = "abort"` would end the daemon at its first panic.
#[cfg(not(panic = "unwind"))]
compile_error!("sgpu's plugins need panic = \"unwind\"");
