//! Bindings to Slurm's headers. Only generated code: what it means is said in Slurm's own headers,
//! and the safe layer over it is the crate `slurm-plugin`.
//!
//! Nothing generated is committed. The build takes the headers of the very release that runs
//! (`cargo xtask build --slurm 24.11` names them) and refuses a source tree of another one.
//! On a machine without Slurm the crate is empty and its cfgs `slurm_public` and `slurm_internal`
//! are off.

/// The public headers, `slurm/spank.h` and `slurm/slurm.h`.
#[cfg(slurm_public)]
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::cast_possible_truncation
)]
pub mod public {
    include!(concat!(env!("OUT_DIR"), "/public.rs"));
}

/// The internal headers of the release's own source tree.
#[cfg(slurm_internal)]
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::cast_possible_truncation
)]
pub mod internal {
    include!(concat!(env!("OUT_DIR"), "/internal.rs"));
}
