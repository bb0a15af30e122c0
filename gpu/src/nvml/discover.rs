//! Discovery: the inventory of a node, under deadlines.

use std::path::PathBuf;
use std::time::Duration;

use super::error::Error;
use super::worker::{Hung, Worker};
use crate::model::Inventory;

/// How discovery goes about it.
#[derive(Clone, Debug)]
pub struct DiscoverOptions {
    /// The NVML library; `None`: the system's.
    pub library: Option<PathBuf>,
    /// Longest time that opening and initialising NVML may take.
    pub init_deadline: Duration,
    /// Longest time that one GPU's calls may take together.
    pub gpu_deadline: Duration,
    /// Give up on the remaining GPUs after this many hung ones.
    pub max_hung: usize,
    /// The `/proc` with `driver/nvidia-caps/mig-minors`.
    pub proc: PathBuf,
    /// The `/sys` where a link's far end is looked up when NVML cannot tell what it is.
    pub sys: PathBuf,
}

impl Default for DiscoverOptions {
    fn default() -> Self {
        Self {
            library: None,
            init_deadline: Duration::from_secs(60),
            gpu_deadline: Duration::from_secs(10),
            max_hung: 2,
            proc: "/proc".into(),
            sys: "/sys".into(),
        }
    }
}

/// Why there is no inventory at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    /// NVML cannot be loaded or initialised, or does not count its GPUs.
    #[error(transparent)]
    Nvml(#[from] Error),
    /// It hung at that.
    #[error(transparent)]
    Hung(#[from] Hung),
}

/// Finds what is on the node. One sick GPU hides no other.
///
/// # Errors
/// NVML as a whole cannot be asked.
pub fn discover(worker: &Worker, options: &DiscoverOptions) -> Result<Inventory, DiscoverError> {
    let _ = (worker, options);
    Err(Error::Load("under construction".into()).into())
}
