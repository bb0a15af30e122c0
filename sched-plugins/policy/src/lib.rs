//! What the scheduling plugins decide, without Slurm.
//!
//! - [`preempt`]: whom a job may push out, and when it rather waits;
//! - [`site_factor`]: the site's part of a job's priority.
//!
//! Nothing here reads a clock or a file: the time is an argument, and what is remembered is bounded.
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

pub mod preempt;
pub mod site_factor;
