//! `gpu/nvidia`, in the place of 24.11's own driver of that name (`AutoDetect=nvidia`).
#![cfg(slurm_internal)]

gres_gpu_driver::export_driver! {
    name: "sgpu GPU driver (NVIDIA)",
    type: "gpu/nvidia",
    driver: gres_gpu_driver::Driver::Nvidia,
}
