//! Bindings are never made from another release's source: a plugin built so would corrupt the daemon's
//! memory.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Release, Root};
use suites::plugins;

fn build(source: &Root, daemons: &Root) -> String {
    let target: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("headers");
    let src = plugins::source(&source.version().to_string());
    let said = Command::new(env!("CARGO"))
        .args(["check", "--quiet", "-p", "slurm-headers", "--target-dir"])
        .arg(target)
        .env("SLURM_BUILD", src.parent().unwrap().join("build"))
        .env("SLURM_SRC", src)
        .env("SLURM_INCLUDE", daemons.path().join("usr/include"))
        .output()
        .unwrap();
    if said.status.success() {
        return "built".into();
    }
    String::from_utf8_lossy(&said.stderr).into_owned()
}

#[test]
fn a_source_of_22_05_is_refused_for_24_11_and_both_are_named() {
    if !Release::FULL.into_iter().all(suites::is_under_test) {
        return;
    }
    let [old, new] = Release::FULL.map(|release| Root::open(release).unwrap());
    let said = build(&old, &new);
    for name in [
        old.version().to_string(),
        new.version().to_string(),
        "very release".into(),
    ] {
        assert!(said.contains(&name), "{name} is not in: {said}");
    }
    assert_eq!(build(&new, &new), "built");
}
