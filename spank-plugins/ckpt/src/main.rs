//! `sgpu-ckpt`: what a training job tells Slurm of its checkpoints.
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod mark;
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
}

/// Why nothing was done.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    why: String,
}

fn main() -> ExitCode {
    let Command::Mark(args) = Cli::parse().command;
    match mark::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, why }) => {
            eprintln!("sgpu-ckpt: {why}");
            ExitCode::from(code)
        }
    }
}
