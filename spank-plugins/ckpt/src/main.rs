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

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

/// Tell Slurm of a job's checkpoints.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print what a shell completes the command by, and end
    #[arg(long, value_name = "SHELL", exclusive = true)]
    completion: Option<Shell>,
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
    let cli = Cli::parse();
    let done = match cli.command {
        Some(Command::Mark(args)) => mark::run(&args),
        Some(Command::Serve) => serve::run(),
        None => {
            let mut out = std::io::stdout();
            let shell = cli.completion.unwrap_or(Shell::Bash);
            clap_complete::generate(shell, &mut Cli::command(), "sgpu-ckpt", &mut out);
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, why }) => {
            eprintln!("sgpu-ckpt: {why}");
            ExitCode::from(code)
        }
    }
}
