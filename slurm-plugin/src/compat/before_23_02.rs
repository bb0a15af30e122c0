//! 23.02 made `add_gres_to_list` take a record.

use slurm_headers::internal;

use crate::list::RawList;

/// Appends a copy of `record`.
///
/// # Safety
/// As for Slurm's function: a live list of `gres_slurmd_conf_t`, pointers NULL or live.
#[cfg(slurm_ge = "23.02")]
pub(crate) unsafe fn add_gres_to_list(list: RawList, record: &mut internal::gres_slurmd_conf_t) {
    // SAFETY: the caller's contract.
    unsafe { internal::add_gres_to_list(list, record) }
}

/// Appends a copy of `record`.
///
/// # Safety
/// As for Slurm's function: a live list of `gres_slurmd_conf_t`, pointers NULL or live.
#[cfg(not(slurm_ge = "23.02"))]
pub(crate) unsafe fn add_gres_to_list(list: RawList, record: &mut internal::gres_slurmd_conf_t) {
    // SAFETY: the caller's contract.
    unsafe {
        internal::add_gres_to_list(
            list,
            record.name,
            record.count,
            i32::try_from(record.cpu_cnt).unwrap_or(i32::MAX),
            record.cpus,
            record.cpus_bitmap,
            record.file,
            record.type_name,
            record.links,
            record.unique_id,
            record.config_flags,
        );
    }
}
