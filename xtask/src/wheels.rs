//! Python packages from PyPI for the Python of a root, fetched by this machine's own pip, as its user has
//! set it up.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::fsx;
use crate::hostpkgs;
use crate::paths::Paths;
use crate::run::Cmd;
use crate::step::{Progress, Step};

/// The wheels that a root may have, newest first: Debian 12's glibc is 2.36.
const PLATFORMS: [&str; 4] = [
    "manylinux_2_28",
    "manylinux_2_27",
    "manylinux_2_17",
    "manylinux2014",
];

/// Fetches packages for the Python of a root, without what they depend on: a folder to be copied to a place
/// where it looks.
pub(crate) fn fetch(
    paths: &Paths,
    names: &[&str],
    root: &Path,
    step: &Step<'_>,
) -> Result<PathBuf> {
    let folder = paths.target().join("wheels");
    fsx::remove_dir(&folder)?;
    fsx::make_dir(&folder)?;
    if names.is_empty() {
        return Ok(folder);
    }
    let python = || Cmd::new("python3").args(["-m", "pip"]);
    if python().arg("-V").output().is_err() {
        hostpkgs::install(&["python3-pip"], &Progress::new(1, paths.logs()))?;
    }
    let mut install = python().args(["install", "--no-deps", "--only-binary=:all:"]);
    for platform in PLATFORMS {
        let arch = std::env::consts::ARCH;
        install = install.args(["--platform", &format!("{platform}_{arch}")]);
    }
    install
        .args(["--python-version", &version(root)?])
        // Of this, pip asks its own Python's version, whatever it has been told.
        .arg("--ignore-requires-python")
        .args(["--no-compile", "--target"])
        .arg(&folder)
        .args(names)
        .hint("pip on this machine has to reach PyPI, or an index of yours: see `pip config list`")
        .run(step)?;
    Ok(folder)
}

/// The version of a root's Python, `3.13`.
fn version(root: &Path) -> Result<String> {
    let link = root.join("usr/bin/python3");
    let target = fs::read_link(&link).with_context(|| format!("cannot read {}", link.display()))?;
    let name = target.to_string_lossy();
    let version = name.strip_prefix("python");
    version
        .map(str::to_owned)
        .with_context(|| format!("{} is {name}", link.display()))
}
