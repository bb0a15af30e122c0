//! Until 23.11 slurmd listed its GPUs and forked into the background after.

use slurm_headers::internal::slurmd_conf_t;

/// Whether this slurmd will fork after it has listed its GPUs.
#[cfg(not(slurm_ge = "23.11"))]
pub(crate) fn forks_after_discovery(conf: &slurmd_conf_t) -> bool {
    // `pid` is set once slurmd is in the background (`main` in src/slurmd/slurmd/slurmd.c).
    conf.daemonize() != 0 && conf.pid == 0
}

/// Whether this slurmd will fork after it has listed its GPUs: no longer.
#[cfg(slurm_ge = "23.11")]
pub(crate) fn forks_after_discovery(_: &slurmd_conf_t) -> bool {
    false
}
