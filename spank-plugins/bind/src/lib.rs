//! SPANK plugin `spank_sgpu_bind`.
#![cfg(slurm_public)]
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

slurm_plugin::spank_plugin! {
    name: "sgpu_bind",
    /// Called when the plugin is loaded.
    slurm_spank_init => |_spank, _arguments| 0,
}
