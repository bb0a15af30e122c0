//! Where Slurm's releases differ. The rest of the crate sees the newest shape only; an older release
//! adapts to it here, one file per change, named after the release that made it.

mod before_23_02;
mod before_23_02_preempt;
mod before_23_02_usage;
mod before_23_11_fork;
mod before_24_11;

pub(crate) use before_23_02::add_gres_to_list;
pub(crate) use before_23_02_preempt::preempt_params;
pub(crate) use before_23_02_usage::usage_positions;
pub(crate) use before_23_11_fork::forks_after_discovery;
pub(crate) use before_24_11::{AUTODETECT_NVIDIA, is_refusal};
pub use before_24_11::{GPU_FLAGS, MIG_FLAGS, MIG_HAS_LINKS, MIG_NAMED_BY_DEVICE};
pub(crate) use before_24_11::{JobDetails, RawIterator, RawListTarget};
