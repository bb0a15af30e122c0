//! `gpu/generic`, for a Slurm that was configured without NVML, and for 22.05 on a host with the driver
//! but without NVML's development link: both load `gpu/generic` whatever gres.conf says. It acts only
//! when gres.conf says `AutoDetect=nvml` or `nvidia`.
#![cfg(slurm_internal)]

gres_gpu_driver::export_driver! {
    name: "sgpu GPU driver (generic)",
    type: "gpu/generic",
    driver: gres_gpu_driver::Driver::Generic,
}
