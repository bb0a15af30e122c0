//! SPANK plugin `spank_sgpu_bind`: tasks run on the CPUs nearest to their GPUs.
//!
//! | hook                     | runs in                   | what it does                                      |
//! |--------------------------|---------------------------|---------------------------------------------------|
//! | `slurm_spank_init`       | srun, sbatch, slurmstepd  | registers the options                             |
//! | `slurm_spank_init_post_opt` | slurmstepd, as root    | reads sgpu.toml, the map of GPUs and sysfs        |
//! | `slurm_spank_task_init`  | each task, as the user    | decides, binds, reports in `SGPU_BIND`            |
//!
//! What is read of the node is read before the tasks start: a container plugin may change a task's view of
//! the file system first. The decisions are `spank_core::bind`'s.
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

mod apply;
mod options;
mod step;
mod task;

slurm_plugin::spank_plugin! {
    name: "sgpu_bind",
    /// Called when the plugin is loaded.
    slurm_spank_init => |spank, _arguments| {
        options::register(&spank);
        0
    },
    /// Called when the options are known.
    slurm_spank_init_post_opt => |spank, arguments| {
        step::prepare(&spank, &arguments);
        0
    },
    /// Called in each task, shortly before its program starts.
    slurm_spank_task_init => |spank, _arguments| {
        task::start(&spank);
        0
    },
}
