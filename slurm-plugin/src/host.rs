//! Which process of Slurm this is.

use slurm_headers::internal;

/// Whether this is slurmctld.
#[must_use]
pub fn in_slurmctld() -> bool {
    // SAFETY: takes no argument; Slurm compares the name of its own program.
    unsafe { internal::slurm_running_in_slurmctld() }
}

/// Whether this is slurmd.
#[must_use]
pub fn in_slurmd() -> bool {
    // SAFETY: as above.
    unsafe { internal::slurm_running_in_slurmd() }
}

/// Whether this is slurmstepd.
#[must_use]
pub fn in_slurmstepd() -> bool {
    // SAFETY: as above.
    unsafe { internal::slurm_running_in_slurmstepd() }
}
