//! 23.02 made `add_gres_to_list` take a record, and 23.11 made `gres_g_get_devices` take the step.

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

/// All devices of the node; the list is the caller's, its elements are Slurm's. NULL if there are
/// none.
pub(crate) fn gres_g_get_devices() -> RawList {
    #[cfg(slurm_ge = "23.11")]
    let nobody = std::ptr::null_mut();
    #[cfg(not(slurm_ge = "23.11"))]
    let nobody = 0;
    // SAFETY: with no gres list the function lists all devices and looks at no other argument
    // (22.05 src/common/gres.c, 24.11 src/interfaces/gres.c).
    unsafe {
        internal::gres_g_get_devices(
            std::ptr::null_mut(),
            false,
            0,
            std::ptr::null_mut(),
            0,
            nobody,
        )
    }
}
