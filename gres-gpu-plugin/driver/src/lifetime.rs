//! Loading and unloading.

use std::ffi::c_int;
use std::time::Duration;

use slurm_plugin::log;

/// How long closing NVML may take when the plugin is unloaded.
const CLOSE_DEADLINE: Duration = Duration::from_secs(1);

/// Nothing is opened yet: NVML takes seconds, and only some processes need it.
pub fn init(plugin_type: &'static str) -> c_int {
    log::set_prefix(plugin_type);
    log::debug(format_args!("sgpu {} loaded", env!("CARGO_PKG_VERSION")));
    0
}

/// Ends our threads and closes NVML, so that Slurm may unmap the code. A thread that hangs in NVML
/// keeps it mapped, which is harmless.
pub fn fini() -> c_int {
    crate::publish::stop();
    crate::numbering::forget();
    crate::discovery::reset();
    crate::clocks::reset();
    crate::usage::close(CLOSE_DEADLINE);
    crate::energy::close(CLOSE_DEADLINE);
    gpu::nvml::reset();
    0
}
