//! 24.11 dropped the typedefs `List` and `ListIterator`, made one of a job's details, added a flag to detected gres records, and refuses
//! energy requests beyond ten.

use slurm_headers::internal;

#[cfg(not(slurm_ge = "24.11"))]
mod list {
    use slurm_headers::internal;

    pub(crate) type RawListTarget = internal::xlist;
    pub(crate) type RawIterator = internal::ListIterator;
}

#[cfg(slurm_ge = "24.11")]
mod list {
    use slurm_headers::internal;

    pub(crate) type RawListTarget = internal::list_t;
    pub(crate) type RawIterator = *mut internal::list_itr_t;
}

pub(crate) use list::{RawIterator, RawListTarget};

/// The details of a job, of which 24.11 made a typedef.
#[cfg(not(slurm_ge = "24.11"))]
pub(crate) type JobDetails = internal::job_details;
/// The details of a job.
#[cfg(slurm_ge = "24.11")]
pub(crate) type JobDetails = internal::job_details_t;

/// What Slurm's own driver sets on a detected GPU: its environment is NVIDIA's and, from 24.11, it
/// was detected.
#[cfg(not(slurm_ge = "24.11"))]
pub const GPU_FLAGS: u32 = internal::GRES_CONF_ENV_NVML;
/// What Slurm's own driver sets on a detected GPU: its environment is NVIDIA's and it was detected.
#[cfg(slurm_ge = "24.11")]
pub const GPU_FLAGS: u32 = internal::GRES_CONF_ENV_NVML | internal::GRES_CONF_AUTODETECT;

/// What is set on a MIG device besides: from 23.11 its index counts all devices of the node.
#[cfg(not(slurm_ge = "23.11"))]
pub const MIG_FLAGS: u32 = GPU_FLAGS;
/// What is set on a MIG device: its index counts all devices of the node.
#[cfg(slurm_ge = "23.11")]
pub const MIG_FLAGS: u32 = GPU_FLAGS | internal::GRES_CONF_GLOBAL_INDEX;

/// `AutoDetect=nvml`, and from 24.11 `AutoDetect=nvidia` too.
#[cfg(not(slurm_ge = "24.11"))]
pub(crate) const AUTODETECT_NVIDIA: u32 = internal::GRES_AUTODETECT_GPU_NVML;
/// `AutoDetect=nvml` and `AutoDetect=nvidia`.
#[cfg(slurm_ge = "24.11")]
pub(crate) const AUTODETECT_NVIDIA: u32 =
    internal::GRES_AUTODETECT_GPU_NVML | internal::GRES_AUTODETECT_GPU_NVIDIA;

/// How this release names MIG devices and marks their order; see Slurm's `gpu_nvml.c` of 22.05 and
/// 24.11.
pub const MIG_HAS_LINKS: bool = !cfg!(slurm_ge = "23.11");
/// Whether this release takes the profile of a MIG device from its name.
pub const MIG_NAMED_BY_DEVICE: bool = cfg!(slurm_ge = "23.02");

/// Whether slurmd has refused a request because it has too many of them (`_rpc_acct_gather_energy` in
/// src/slurmd/slurmd/req.c).
#[cfg(slurm_ge = "24.11")]
pub(crate) fn is_refusal(errno: i32) -> bool {
    u32::try_from(errno) == Ok(internal::slurm_err_t::ESLURMD_TOO_MANY_RPCS)
}

/// Whether slurmd has refused a request because it has too many of them: it has no such limit.
#[cfg(not(slurm_ge = "24.11"))]
pub(crate) fn is_refusal(_: i32) -> bool {
    false
}
