//! What the suites share. The tests themselves are in `tests/`, one file per subject; they need what
//! `cargo xtask setup` and `cargo xtask build` make, and `cargo xtask test` runs them.
#![forbid(unsafe_code)]

pub mod c_plugin;
pub mod elf;
pub mod gpus;
pub mod initramfs;
pub mod jobs;
pub mod plugins;
pub mod sacct;
pub mod sandbox;
pub mod scenarios;
pub mod sealed;
pub mod training;

use std::time::Duration;

use gpu::index_map::{DEFAULT_PATH, IndexMap};
use harness::{Builder, Cluster, Release};

/// The releases under test (those of `cargo xtask test --slurm`) that all plugins are built for.
#[must_use]
pub fn releases() -> Vec<Release> {
    Release::under_test()
        .into_iter()
        .filter(|release| Release::FULL.contains(release))
        .collect()
}

/// The releases under test that SPANK plugins are built for: all of them, since public headers are enough.
#[must_use]
pub fn spank_releases() -> Vec<Release> {
    Release::under_test()
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

/// Runs a test on each release under test that has all plugins, side by side.
pub fn on_each_release(test: impl Fn(Release) + Sync) {
    side_by_side(&releases(), test);
}

/// Runs a test of SPANK plugins on each release under test, side by side.
pub fn on_each_spank_release(test: impl Fn(Release) + Sync) {
    side_by_side(&spank_releases(), test);
}

fn side_by_side(releases: &[Release], test: impl Fn(Release) + Sync) {
    if releases.is_empty() {
        eprintln!("skipped: not all plugins are built for a release under test");
    }
    std::thread::scope(|scope| {
        for release in releases {
            let test = &test;
            scope.spawn(move || test(*release));
        }
    });
}

/// Lets what slurmd and slurmctld log pass when a node lacks a GPU that slurm.conf gives it.
pub fn may_lack_a_gpu(cluster: Builder) -> Builder {
    cluster
        .allow_log("Discarding the following config-only GPU|error:     GRES.gpu.")
        .allow_log("_slurm_rpc_node_registration node=.*: Invalid argument")
        .allow_log("gres/gpu count reported lower than configured|Setting node .* state to INVAL")
}

/// The map that the first node of a cluster has published.
///
/// # Panics
/// When there is none within ten seconds.
#[must_use]
pub fn published_map(cluster: &Cluster) -> IndexMap {
    let path = cluster.path(&cluster.nodes()[0], DEFAULT_PATH).unwrap();
    cluster
        .wait_until("the published map", Duration::from_secs(10), || {
            IndexMap::read(&path).map_err(|error| error.to_string())
        })
        .unwrap()
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
