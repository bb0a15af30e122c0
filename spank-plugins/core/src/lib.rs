//! What the SPANK plugins decide, without Slurm.
//!
//! - [`bind`]: which CPUs and memory nodes a task gets, from its GPUs;
//! - [`checkpoint`]: which signal a task gets, and when;
//! - [`mod@env`]: the environment of distributed training.
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

pub mod bind;
pub mod checkpoint;
pub mod env;

/// Steps from this number on are Slurm's own: batch scripts, interactive steps, extern steps.
pub const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;
