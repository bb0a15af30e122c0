//! Slurm's grammar, read without Slurm.
//!
//! - [`hostlist`], as `node[001-003,007]`;
//! - [`comment`]: the mark of a written checkpoint in a job's Comment.
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

pub mod comment;
pub mod hostlist;
