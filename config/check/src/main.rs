//! `sgpu-check`: mistakes in the site's files, before Slurm's daemons read them.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod plugstack;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;

/// Look for mistakes in sgpu.toml and in what plugstack.conf says of sgpu's plugins.
///
/// All of them are told at once, each with its file and line, before slurmd or a job meets the first.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
Exit codes:
  0  there are none
  1  there are some, or a file cannot be read
  2  usage"
)]
struct Cli {
    /// sgpu.toml; files that plugstack.conf names by config= are looked at as well
    #[arg(long, value_name = "FILE", default_value = sgpu_config::DEFAULT_PATH)]
    config: PathBuf,
    /// plugstack.conf, with what it includes
    #[arg(long, value_name = "FILE", default_value = plugstack::DEFAULT_PATH)]
    plugstack: PathBuf,
    /// Print what a shell completes the command by, and end
    #[arg(long, value_name = "SHELL")]
    completion: Option<Shell>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(shell) = cli.completion {
        let mut out = std::io::stdout();
        clap_complete::generate(shell, &mut Cli::command(), "sgpu-check", &mut out);
        return ExitCode::SUCCESS;
    }
    let mut told = 0_usize;
    let mut tell =
        |path: &Path, faults: Result<Vec<String>, std::io::Error>, usual: (&str, &str)| {
            let (usual, without) = usual;
            match faults {
                Ok(faults) if faults.is_empty() => println!("{}: no mistake", path.display()),
                Ok(faults) => {
                    for fault in &faults {
                        eprintln!("{}: {fault}", path.display());
                    }
                    told = told.saturating_add(faults.len());
                }
                // Neither file has to be there.
                Err(error) if error.kind() == ErrorKind::NotFound && path == Path::new(usual) => {
                    println!("{}: not there: {without}", path.display());
                }
                Err(error) => {
                    eprintln!("{}: {error}", path.display());
                    told = told.saturating_add(1);
                }
            }
        };
    let mut configs = vec![cli.config];
    for (path, read) in plugstack::read(&cli.plugstack) {
        let faults = read.map(|found| {
            configs.extend(found.configs);
            for note in &found.notes {
                println!("{}: note: {note}", path.display());
            }
            found.faults
        });
        let without = "srun and slurmd load none of sgpu's plugins";
        tell(&path, faults, (plugstack::DEFAULT_PATH, without));
    }
    configs.dedup();
    for path in &configs {
        let text = sgpu_config::text(path);
        let faults = text.map(|text| sgpu_config::faults(&text));
        tell(
            path,
            faults,
            (sgpu_config::DEFAULT_PATH, "the defaults count"),
        );
    }
    match told {
        0 => ExitCode::SUCCESS,
        1 => end("1 mistake"),
        many => end(&format!("{many} mistakes")),
    }
}

fn end(how_many: &str) -> ExitCode {
    eprintln!("sgpu-check: {how_many}");
    ExitCode::from(1)
}
