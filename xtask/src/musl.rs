//! Rust's standard library over musl, for programs without shared libraries: they run in any container, and
//! musl starts them much sooner than glibc does (which asks a virtual CPU for its features for long).

use std::path::Path;

use anyhow::Result;

use crate::run::Cmd;
use crate::step::Step;

/// The target's name, for this machine's processor.
pub(crate) fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Has rustup fetch the library where it is missing.
pub(crate) fn ensure(step: &Step<'_>) -> Result<()> {
    let target = target();
    let folder = Cmd::new("rustc")
        .args(["--print", "target-libdir", "--target", &target])
        .output()?;
    if Path::new(folder.trim()).is_dir() {
        return Ok(());
    }
    Cmd::new("rustup")
        .args(["target", "add", &target])
        .hint(format!(
            "Rust's standard library for {target} is missing; with a Rust that did not come by rustup, install \
             the distribution's package of it"
        ))
        .run(step)
}
