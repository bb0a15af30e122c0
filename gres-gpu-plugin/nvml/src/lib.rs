//! `gpu/nvml`, in the place of Slurm's own driver of that name.
#![cfg(slurm_internal)]

gres_gpu_driver::export_driver! {
    name: "sgpu GPU driver (NVML)",
    type: "gpu/nvml",
    driver: gres_gpu_driver::Driver::Nvidia,
}
