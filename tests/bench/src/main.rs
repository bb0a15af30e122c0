//! Figures on real daemons, ours beside Slurm's own in one run. `cargo xtask bench NAME` builds what they
//! need and calls this program. Each ends in lines `figure: <bench>.<name> <value> <unit>`.
#![forbid(unsafe_code)]

mod discovery;
mod median;
mod pairs;
mod policy;
mod spank;
mod usage;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Figures on real daemons, ours beside Slurm's own.
#[derive(Parser)]
// As it is called: `cargo xtask bench` hands its arguments on.
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// `slurmd -G` with our driver and with Slurm's, and the NVML calls of a usage poll.
    #[command(override_usage = "cargo xtask bench discovery -- [OPTIONS]")]
    Discovery {
        /// Interleaved pairs of runs.
        #[arg(long, default_value_t = 200)]
        pairs: usize,
    },
    /// What scheduling policies make of a trace of GPU jobs, on a real slurmctld with a fast clock.
    #[command(override_usage = "cargo xtask bench policy -- [OPTIONS]")]
    Policy(policy::Args),
    /// `srun -n 64 true` with and without the SPANK plugins.
    #[command(override_usage = "cargo xtask bench spank -- [OPTIONS]")]
    Spank {
        /// Interleaved pairs of runs; fewer than ten say nothing of the median.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(10..))]
        pairs: u16,
    },
    /// Times two commands in turn; for use inside a machine of the harness.
    #[command(hide = true)]
    Pairs {
        /// How many pairs.
        #[arg(long)]
        pairs: usize,
        /// The first command, split at blanks.
        a: String,
        /// The second.
        b: String,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().bench) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Discovery { pairs } => {
            discovery::run(pairs)?;
            usage::run()
        }
        Bench::Policy(args) => policy::run(&args),
        Bench::Spank { pairs } => spank::run(usize::from(pairs)),
        Bench::Pairs { pairs, a, b } => pairs::run(pairs, &a, &b),
    }
}
