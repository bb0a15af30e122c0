//! Jobs of the tests.

use std::time::Duration;

use harness::{Cluster, JobId};

/// Waits until the job of a name runs, and gives its number.
///
/// # Panics
/// When it does not within a minute.
#[must_use]
pub fn wait_running(cluster: &Cluster, name: &str) -> JobId {
    cluster.wait_running(name, Duration::from_secs(60)).unwrap()
}

/// Runs srun with these words, and gives what its tasks printed.
///
/// # Panics
/// When it fails.
#[must_use]
pub fn srun(cluster: &Cluster, words: &[&str]) -> String {
    cluster.run("srun", words).unwrap().ok().unwrap().stdout
}
