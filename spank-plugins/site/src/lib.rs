//! What the site says of this node: its part of sgpu.toml. In slurmstepd, before there are tasks: those may be in
//! containers, which have no file of the site's.
#![cfg(slurm_public)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::path::Path;

use sgpu_config::Sections;
use slurm_plugin::log;
use slurm_plugin::spank::{Spank, large_blocks_are_mappings};
use slurm_text::hostlist;
use spank_core::FIRST_SPECIAL_STEP;

/// This node's sections, of the file at `path` or where it usually is. A file with a fault is told in the log and
/// left out whole: no job is to fail for it.
#[must_use]
pub fn sections(spank: &Spank<'_>, path: Option<&Path>) -> Sections {
    large_blocks_are_mappings();
    let path = path.unwrap_or(Path::new(sgpu_config::DEFAULT_PATH));
    sgpu_config::read(path, &node_name(spank)).unwrap_or_else(|error| {
        log::error(format_args!("{error}; nothing of the file counts"));
        Sections::default()
    })
}

/// Tells the log what is wrong with the plugin's words in plugstack.conf.
pub fn tell(faults: &[String]) {
    for fault in faults {
        log::error(format_args!("plugstack.conf: {fault}; left out"));
    }
}

/// The node's name in Slurm, which need not be the host's: by its place in the step or, for a step of Slurm's own,
/// in the job. `SLURMD_NODENAME` comes with the tasks.
fn node_name(spank: &Spank<'_>) -> String {
    let by_place = || {
        let special = spank.step_id().ok()? >= FIRST_SPECIAL_STEP;
        let nodes = if special {
            "SLURM_JOB_NODELIST"
        } else {
            "SLURM_STEP_NODELIST"
        };
        let list = spank.getenv(nodes)?;
        let place = usize::try_from(spank.node_id().ok()?).ok()?;
        hostlist::hosts(&list).ok()?.into_iter().nth(place)
    };
    by_place().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        host.trim().split('.').next().unwrap_or_default().to_owned()
    })
}
