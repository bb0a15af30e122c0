//! What callers have set: application clocks, power limits and so on.
//!
//! Kept in a small TOML file beside the scenario, by device UUID, so that a clock that slurmstepd
//! sets is there for every other process, as with a real driver.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::board::{Board, Gpu};
use crate::live;
use crate::status::Status;

/// What is set on one device; `None` is the scenario's own value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    pub(crate) app_mem_mhz: Option<u32>,
    pub(crate) app_graphics_mhz: Option<u32>,
    pub(crate) locked_graphics_mhz: Option<(u32, u32)>,
    pub(crate) locked_mem_mhz: Option<(u32, u32)>,
    pub(crate) power_limit_mw: Option<u32>,
    pub(crate) persistence_mode: Option<bool>,
    pub(crate) compute_mode: Option<u32>,
    pub(crate) ecc_pending: Option<bool>,
    pub(crate) mig_pending: Option<bool>,
    pub(crate) accounting_mode: Option<bool>,
    pub(crate) restricted_application_clocks: Option<bool>,
    pub(crate) restricted_auto_boost: Option<bool>,
    pub(crate) volatile_ecc_cleared: Option<bool>,
    pub(crate) nvlink_errors_cleared: Option<bool>,
}

type Contents = BTreeMap<String, Settings>;

fn read(path: &Path) -> Contents {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    toml::from_str(&text).unwrap_or_default()
}

/// What is set on the device.
pub(crate) fn settings(board: &Board, gpu: &Gpu) -> Settings {
    read(&live::state_path(board))
        .remove(&gpu.uuid)
        .unwrap_or_default()
}

/// Changes what is set on the device, if the process may.
pub(crate) fn change(
    board: &Board,
    gpu: &Gpu,
    change: impl FnOnce(&mut Settings),
) -> Result<(), Status> {
    let free = board.scenario.unprivileged_changes == Some(true);
    if !free && !nix::unistd::geteuid().is_root() {
        return Err(Status::NO_PERMISSION);
    }
    let path = live::state_path(board);
    let write = || -> std::io::Result<()> {
        let lock = File::create(with_suffix(&path, ".lock"))?;
        let _held = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
        let mut contents = read(&path);
        change(contents.entry(gpu.uuid.clone()).or_default());
        let text = toml::to_string(&contents).unwrap_or_default();
        let temporary = with_suffix(&path, ".tmp");
        std::fs::write(&temporary, text)?;
        std::fs::rename(&temporary, &path)
    };
    write().map_err(|_| Status::OPERATING_SYSTEM)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
