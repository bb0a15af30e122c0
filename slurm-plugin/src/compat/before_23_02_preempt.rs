//! 23.02 moved the options of preemption from `SchedulerParameters` to `PreemptParameters`.

use std::ffi::c_char;

use slurm_headers::internal::slurm_conf_t;

/// `PreemptParameters`.
#[cfg(slurm_ge = "23.02")]
pub(crate) fn preempt_params(conf: &slurm_conf_t) -> *const c_char {
    conf.preempt_params
}

/// `PreemptParameters`, which there is not.
#[cfg(not(slurm_ge = "23.02"))]
pub(crate) fn preempt_params(_: &slurm_conf_t) -> *const c_char {
    std::ptr::null()
}
