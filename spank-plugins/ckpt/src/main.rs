//! `sgpu-ckpt`: what a training job tells Slurm of its checkpoints.
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod ask;
mod mark;
mod peer;
mod serve;
mod slurm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tell Slurm of a job's checkpoints.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Mark(mark::Args),
    /// Mark for a task that is in a container. Slurm's plugin spank_sgpu_ckpt starts it, nobody else.
    #[command(hide = true)]
    Serve,
}

/// Why nothing was done.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    why: String,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Mark(args) => mark::run(&args),
        Command::Serve => serve::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, why }) => {
            eprintln!("sgpu-ckpt: {why}");
            ExitCode::from(code)
        }
    }
}
