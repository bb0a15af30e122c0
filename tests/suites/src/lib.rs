//! What the suites share. The tests themselves are in `tests/`, one file per subject; they need what
//! `cargo xtask setup` and `cargo xtask build` make, and `cargo xtask test` runs them.
#![forbid(unsafe_code)]

pub mod elf;
pub mod jobs;
pub mod plugins;
pub mod sacct;
pub mod sandbox;
