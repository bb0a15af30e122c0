//! What the gpu driver and energy plugins decide, without Slurm and without NVML.
//!
//! - [`clocks`]: what `--gpu-freq` asks for and which clocks of a GPU come nearest;
//! - [`configured`]: how many GPUs slurm.conf gives a node;
//! - [`energy`]: joules of a step from counters that each GPU keeps;
//! - [`index`]: which GPU stands behind a gres index;
//! - [`ledger`]: which joules are a step's, and which are left for the batch script;
//! - [`records`]: from what is on a node to what Slurm is told of it;
//! - [`share`]: what a GPU or MIG device shows of energy and power;
//! - [`watts`]: joules for Slurm's own energy plugin, which knows only watts.
#![forbid(unsafe_code)]
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

pub mod clocks;
pub mod configured;
pub mod energy;
pub mod index;
pub mod ledger;
pub mod records;
pub mod share;
pub mod watts;
