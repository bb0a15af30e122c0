//! What the suites share. The tests themselves are in `tests/`, one file per subject; they need what
//! `cargo xtask setup` and `cargo xtask build` make, and `cargo xtask test` runs them.
#![forbid(unsafe_code)]

pub mod elf;
pub mod jobs;
pub mod plugins;
pub mod sacct;
pub mod sandbox;

use harness::{Builder, Release};

/// The releases that the plugins under test are built for: those of `cargo xtask test --slurm`.
#[must_use]
pub fn releases() -> Vec<Release> {
    Release::under_test()
        .into_iter()
        .filter(|release| Release::FULL.contains(release))
        .collect()
}

/// Whether a test of one release runs. Such a test has the release in its name, `_22_05` or `_24_11`, and
/// `cargo xtask test --slurm` leaves it out by that; started by hand, it passes here and says so.
#[must_use]
pub fn is_under_test(release: Release) -> bool {
    let yes = releases().contains(&release);
    if !yes {
        eprintln!("skipped: Slurm {release} is not under test");
    }
    yes
}

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
