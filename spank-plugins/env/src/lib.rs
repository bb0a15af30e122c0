//! SPANK plugin `spank_sgpu_env`: the environment of distributed training.
//!
//! | hook                   | in                     | what it does                                      |
//! |------------------------|------------------------|---------------------------------------------------|
//! | `slurm_spank_init`     | srun, sbatch, salloc   | adds the options                                  |
//! |                        | slurmstepd             | the same, and reads what the node and the site say |
//! | `slurm_spank_task_init`| each task, as its user | sets variables                                    |
//!
//! What is set is decided in `spank_core::env`.
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

mod node;
mod options;
mod step;
mod task;

slurm_plugin::spank_plugin! {
    name: "sgpu_env",
    /// Called when the plugin is loaded.
    slurm_spank_init => |spank, arguments| step::init(&spank, &arguments),
    /// Called in each task before it becomes the user's program.
    slurm_spank_task_init => |spank, _arguments| task::init(&spank),
}
