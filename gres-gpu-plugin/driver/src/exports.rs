//! The exported symbols, the same for each driver.

/// Exports all that Slurm looks up in a driver plugin (`syms[]` in 22.05 `src/common/gpu.c`, 24.11
/// `src/interfaces/gpu.c`). The fallbacks are listed in docs/src/safety.md.
#[macro_export]
macro_rules! export_driver {
    (name: $name:literal, type: $type:literal, driver: $driver:expr $(,)?) => {
        use ::slurm_headers::internal::{
            acct_gather_data_t, bitstr_t, gpu_status_t, node_config_load_t,
        };
        use ::std::ffi::{c_char, c_int};
        use ::std::ptr::null_mut;

        slurm_plugin::plugin_identity! {
            name: $name,
            type: $type,
            version: ::slurm_headers::internal::SLURM_VERSION_NUMBER,
        }

        slurm_plugin::hooks! {
            /// Called when Slurm has opened the plugin.
            fn init() -> c_int, fallback 0 => { $crate::lifetime::init($type) }

            /// Called before Slurm closes the plugin.
            fn fini() -> c_int, fallback 0 => { $crate::lifetime::fini() }

            /// The GPUs of the node.
            fn gpu_p_get_system_gpu_list(
                config: *mut node_config_load_t,
            ) -> slurm_plugin::list::RawList, fallback null_mut() => {
                // SAFETY: Slurm's argument: NULL or its live configuration of the node.
                unsafe { $crate::discovery::system_gpu_list($driver, config) }
            }

            /// How many GPUs Slurm numbers on this node.
            fn gpu_p_get_device_count(count: *mut u32), fallback () => {
                // SAFETY: Slurm's argument: NULL or where the number goes.
                unsafe { $crate::discovery::device_count(count) }
            }

            /// Sets the clocks of a step's GPUs.
            fn gpu_p_step_hardware_init(gpus: *mut bitstr_t, tres_freq: *mut c_char), fallback () => {
                // SAFETY: Slurm's arguments: NULL or the live bitmap and string of the step.
                unsafe { $crate::clocks::step_init($driver, gpus, tres_freq) }
            }

            /// Sets them back.
            fn gpu_p_step_hardware_fini(), fallback () => { $crate::clocks::step_fini() }

            /// Turns a test pattern of fake_gpus.conf into a CPU range.
            fn gpu_p_test_cpu_conv(range: *mut c_char) -> *mut c_char, fallback null_mut() => {
                // SAFETY: Slurm's argument: NULL or a live string.
                unsafe { $crate::cpu_conv::test_cpu_conv(range) }
            }

            /// The power of one GPU.
            fn gpu_p_energy_read(index: u32, status: *mut gpu_status_t) -> c_int, fallback -1 => {
                // SAFETY: Slurm's argument: NULL or the live status of that GPU.
                unsafe { $crate::energy::energy_read($driver, index, status) }
            }

            /// What a process uses of the GPUs.
            fn gpu_p_usage_read(
                pid: c_int, data: *mut acct_gather_data_t,
            ) -> c_int, fallback -1 => {
                // SAFETY: Slurm's argument: NULL or the live TRES array of the process.
                unsafe { $crate::usage::usage_read($driver, pid, data) }
            }

            /// Asked by 22.05 on a reconfiguration.
            fn gpu_p_reconfig() -> c_int, fallback 0 => { 0 }
        }
    };
}
