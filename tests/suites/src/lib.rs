//! What the suites share. The tests themselves are in `tests/`, one file per subject; they need what
//! `cargo xtask setup` and `cargo xtask build` make, and `cargo xtask test` runs them.
#![forbid(unsafe_code)]

pub mod elf;
pub mod jobs;
pub mod plugins;
pub mod sacct;
pub mod sandbox;

use harness::Builder;

/// The `Gres Name=` lines that `slurmd -G` prints on the first node of a cluster without daemons.
///
/// # Panics
/// When slurmd fails.
#[must_use]
pub fn gres_lines(cluster: Builder) -> Vec<String> {
    let cluster = cluster.dry().unwrap();
    let said = cluster.slurmd_g(&cluster.nodes()[0]).unwrap().ok().unwrap();
    cluster.stop().unwrap();
    format!("{}{}", said.stdout, said.stderr)
        .lines()
        .filter_map(|line| line.find("Gres Name=").map(|at| line[at..].to_owned()))
        .collect()
}
