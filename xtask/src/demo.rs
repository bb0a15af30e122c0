//! `cargo xtask demo`: a real cluster, and what sgpu does there.

use anyhow::{Result, bail};

use crate::build;
use crate::interrupt;
use crate::paths::Paths;
use crate::release::{self, Release};
use crate::sudo;
use crate::test::prepare;

/// Boot a real Slurm cluster with fake GPUs in a folder, and show what sgpu does there.
///
/// Sets up and builds first what is missing. Four nodes with eight fake H100 each; nothing is left
/// of them afterwards.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask demo
  cargo xtask demo --slurm 22.05")]
pub(crate) struct Args {
    /// The Slurm release, or the full version of its Debian root
    #[arg(long, value_name = "RELEASE", value_parser = release::parser(), default_value = "24.11")]
    slurm: &'static Release,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> Result<()> {
    release::fully(args.slurm, "the demo")?;
    let paths = Paths::find()?;
    sudo::ready("to make clusters")?;
    prepare(&paths, &[args.slurm], &[false])?;
    let demo = sudo::programs_as_root(build::cargo(&paths))
        .args([
            "run",
            "--quiet",
            "-p",
            "demo",
            "--",
            "--slurm",
            args.slurm.name,
            "--lifeline",
        ])
        .lifeline()
        .env("SGPU_CACHE", &paths.cache)
        .env("SGPU_DIST", paths.dist());
    let status = demo.run_shown()?;
    if !status.success() {
        interrupt::check()?;
        bail!("the demo failed ({status})");
    }
    Ok(())
}
