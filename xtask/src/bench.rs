//! `cargo xtask bench NAME`: figures, ours beside Slurm's own in one run.

use anyhow::{Result, bail};

use crate::build;
use crate::interrupt;
use crate::paths::Paths;
use crate::release;
use crate::sudo;
use crate::test::prepare;

/// Measure on real daemons, ours beside Slurm's own in one run.
///
/// Sets up and builds first what is missing. Ends in lines `figure: NAME.WHAT VALUE UNIT`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Benches:
  discovery   `slurmd -G`, and the NVML calls of a usage poll
  policy      a trace of GPU jobs under each scheduling policy, on a slurmctld with a fast clock
  spank       `srun -n 64 true` with and without the SPANK plugins
Examples:
  cargo xtask bench discovery
  cargo xtask bench discovery -- --pairs 400
  cargo xtask bench spank -- --pairs 20
  cargo xtask bench policy -- --mix bursts --nodes 8 --jobs 120
  cargo xtask bench spank -- --help      # a bench's own options")]
pub(crate) struct Args {
    /// Which bench
    #[arg(value_parser = ["discovery", "policy", "spank"])]
    name: String,
    /// Options of the bench itself
    #[arg(last = true)]
    options: Vec<String>,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> Result<()> {
    let paths = Paths::find()?;
    sudo::ready("to make clusters")?;
    prepare(&paths, &release::chosen(&[]), &[false])?;
    let bench = sudo::programs_as_root(build::cargo(&paths))
        .args([
            "run",
            "--quiet",
            "--release",
            "-p",
            "bench",
            "--",
            &args.name,
        ])
        .args(&args.options)
        .env("SGPU_CACHE", &paths.cache)
        .env("SGPU_DIST", paths.dist());
    let status = bench.run_shown()?;
    if !status.success() {
        interrupt::check()?;
        bail!("the bench failed ({status})");
    }
    Ok(())
}
