//! SPANK plugins of the tests, in C as other sites' are.

use std::process::Command;

use harness::{Cluster, Release, Root};

/// Compiles a plugin to `/opt/sgpu/<name>.so` of a cluster.
///
/// # Panics
/// When it does not compile.
pub fn install(cluster: &Cluster, release: Release, name: &str, source: &str) {
    let file = cluster.opt().join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let include = Root::open(release).unwrap().path().join("usr/include");
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-I"])
        .arg(include)
        .arg("-o")
        .args([cluster.opt().join(format!("{name}.so")), file])
        .status()
        .unwrap();
    assert!(cc.success(), "cc of {name}");
}
