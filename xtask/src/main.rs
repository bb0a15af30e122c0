//! The commands of this repository: `cargo xtask setup`, `build`, `demo`, `test`, `bench`, `lint`, `dist`,
//! `clean`.
//!
//! Nothing here installs or touches Slurm, munge, MariaDB, apt sources or `/etc` on the host:
//! the Slurm releases under test live in roots of their own (see [`rootfs`]), the host gets
//! compilers and headers only (see [`hostpkgs`]).

#![forbid(unsafe_code)]

mod apt;
mod bench;
mod build;
mod cache_dir;
mod clean;
mod demo;
mod dist;
mod elf;
mod fsx;
mod guest;
mod hostpkgs;
mod interrupt;
mod layer;
mod links;
mod lint;
mod lock;
mod matching;
mod musl;
mod oracle;
mod os;
mod paths;
mod plugins;
mod release;
mod rootfs;
mod run;
mod selection;
mod setup;
mod source;
mod step;
mod sudo;
mod test;
mod version;
mod wheels;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sets up, builds, tests and packs sgpu, the GPU layer for real Slurm.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    version,
    after_help = "Exit status: 0 all went well, 1 something failed, 2 an option or value that it does not know, 130 interrupted.\n\
                  Logs of every step are in target/logs/."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Setup(setup::Args),
    Build(build::Args),
    Test(test::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Lint(lint::Args),
    Dist(dist::Args),
    Clean(clean::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = interrupt::install().and_then(|()| match cli.command {
        Command::Setup(args) => setup::main(&args),
        Command::Build(args) => build::main(&args),
        Command::Test(args) => test::main(&args),
        Command::Demo(args) => demo::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Lint(args) => lint::main(&args),
        Command::Dist(args) => dist::main(&args),
        Command::Clean(args) => clean::main(&args),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if interrupt::requested() => {
            eprintln!("interrupted; finished parts are kept, unfinished ones were removed");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}
