//! `cargo xtask lint`: formatting, clippy and the docs, also of the plugins with each Slurm's headers.

use anyhow::Result;

use crate::build::{self, Target};
use crate::paths::Paths;
use crate::release;
use crate::setup;
use crate::step::Progress;

/// Check formatting, lints and docs, the plugins with each Slurm release's headers.
///
/// A Debian testing that cannot be set up is left out, and a line says so.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) fn main(_: &Args) -> Result<()> {
    let paths = Paths::find()?;
    let (ready, missing) = setup::ensure_available(&paths, &release::tested(&[]))?;
    for missing in missing {
        let name = missing.release.name;
        eprintln!("note: no lints with Slurm {name}: {:#}", missing.why);
    }
    let progress = Progress::new(3 + ready.len(), paths.logs());
    for (name, what, args) in [
        (
            "lint-fmt",
            "formatting",
            &["fmt", "--all", "--", "--check"][..],
        ),
        (
            "lint-clippy",
            "lints, without Slurm",
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        ),
        ("lint-docs", "docs", &["doc", "--workspace", "--no-deps"]),
    ] {
        let step = progress.step(name, what.to_owned());
        build::cargo(&paths)
            .args(args)
            .env("RUSTDOCFLAGS", "-D warnings")
            .run(&step)?;
        step.done();
    }
    for one in &ready {
        let target = Target::of(one)?;
        let version = target.version();
        let name = format!("lint-{version}");
        let step = progress.step(&name, format!("lints, with Slurm {version}"));
        let out = paths.target().join(format!("slurm-{version}"));
        let mut cmd = build::cargo_for(&paths, &target, "clippy", &out);
        for plugin in target.plugins() {
            cmd = cmd.args(["-p", plugin.package]);
        }
        let driver = target.has_source().then_some("gres-gpu-driver");
        for room in ["slurm-plugin", "slurm-headers"].into_iter().chain(driver) {
            cmd = cmd.args(["-p", room]);
        }
        cmd.args(["--", "-D", "warnings"]).run(&step)?;
        step.done();
    }
    Ok(())
}
