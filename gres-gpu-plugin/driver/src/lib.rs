//! Slurm's `gpu_p_*` hooks over the crate `gpu`: what `gpu/nvml`, `gpu/nvidia` and `gpu/generic` share.
//!
//! | hook                       | runs in              | module        |
//! |----------------------------|----------------------|---------------|
//! | `gpu_p_get_system_gpu_list`| slurmd, `slurmd -G`  | `discovery` |
//! | `gpu_p_get_device_count`   | slurmd               | `discovery` |
//! | `gpu_p_usage_read`         | slurmstepd           | `usage`     |
//! | `gpu_p_energy_read`        | slurmd               | `energy`    |
//! | `gpu_p_step_hardware_*`    | slurmstepd           | `clocks`    |
//! | `gpu_p_test_cpu_conv`      | slurmd               | `cpu_conv`  |
//!
//! Nothing here waits on NVML without a deadline.
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

pub mod clocks;
pub mod cpu_conv;
pub mod discovery;
pub mod energy;
pub mod exports;
pub mod lifetime;
pub mod numbering;
pub mod publish;
pub mod usage;

/// Which of Slurm's drivers the code stands in for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Driver {
    /// `gpu/nvml`, and `gpu/nvidia` of 24.11: loaded only when gres.conf asks for it.
    Nvidia,
    /// `gpu/generic`: Slurm loads it whenever no other driver serves, under `AutoDetect=off` too.
    Generic,
}

impl Driver {
    /// Whether there is something to do: a generic driver acts only when gres.conf asks for NVIDIA's
    /// GPUs, or it would change what an admin configured by hand.
    fn acts(self) -> bool {
        match self {
            Self::Nvidia => true,
            Self::Generic => slurm_plugin::gres::autodetects_nvidia(),
        }
    }
}
