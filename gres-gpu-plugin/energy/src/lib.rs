//! `acct_gather_energy/sgpu`: the joules of each step from the counters that its GPUs keep.
//!
//! slurmd reads the counters and hands them on as they are; slurmstepd asks slurmd (Slurm's own RPC for
//! energy) at the step's start and at each poll, and subtracts. So a restart of slurmd in mid-step
//! loses nothing, and a step pays for its own GPUs only, whether devices are constrained or not.
//! slurmctld loads the plugin too, and does nothing with it.
//!
//! | hook                        | slurmd                      | slurmstepd                  |
//! |-----------------------------|-----------------------------|-----------------------------|
//! | `…_p_conf_set`              | –                           | how to ask slurmd           |
//! | `…_p_get_data`              | `node`: the counters      | `step`: what was used     |
//! | `…_p_set_data`              | –                           | which GPUs the step has; first reading |
#![cfg(slurm_internal)]
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

mod exports;
mod job;
mod node;
mod record;
mod step;
