//! Rust's standard library over musl, for programs without shared libraries: they run in any container, and
//! musl starts them much sooner than glibc does (which asks a virtual CPU for its features for long).

use std::path::Path;

use anyhow::{Context, Result};

use crate::run::Cmd;
use crate::step::Step;

/// The target's name, for this machine's processor.
fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Has rustup fetch the library where it is missing, and gives the target's name.
///
/// # Errors
/// It is not to be had; the programs can be linked with glibc's static library too.
pub(crate) fn ensure(step: &Step<'_>) -> Result<String> {
    let target = target();
    let folder = Cmd::new("rustc")
        .args(["--print", "target-libdir", "--target", &target])
        .output()?;
    if !Path::new(folder.trim()).is_dir() {
        Cmd::new("rustup")
            .args(["target", "add", &target])
            .run(step)
            .with_context(|| format!("Rust's standard library for {target} is missing"))?;
    }
    Ok(target)
}
