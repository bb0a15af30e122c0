//! `sgpu-ckpt mark`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use spank_core::checkpoint::mark;
use spank_core::checkpoint::marks::{self, Answer};

use crate::{Failure, ask, slurm};

/// Record in the job's Comment that a checkpoint has just been written.
///
/// The Comment gets the word `sgpu:ckpt=<seconds since 1970>`, or has it renewed; what else stands there stays.
/// A mark that is too young to be renewed is success, and so is a call from another task than the first.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes:
  0  marked, or not due yet
  1  Slurm refused the mark, or the Comment has no room for it
  2  usage
  3  not in a job
  4  squeue or scontrol is not here, and no process outside of the container answers")]
pub(crate) struct Args {
    /// Leave a mark that is younger than this as it is, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = seconds)]
    every: u64,
    /// Print errors only
    #[arg(long, short)]
    quiet: bool,
}

fn seconds(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "a whole number of seconds, such as 300".to_owned())
}

/// The least of `--every` where the site does not say: each mark takes locks in slurmctld.
const EVERY_MINIMUM_SECONDS: u64 = 60;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let said = match (var(marks::VARIABLE), other_rank()) {
        (Some(place), None) => elsewhere(&place, args.every),
        _ => here(args.every),
    }?;
    if !args.quiet {
        println!("{said}");
    }
    Ok(())
}

/// In a container: by the process that the plugin has left outside. When that does not answer, the container may
/// have Slurm's commands itself.
fn elsewhere(place: &str, every: u64) -> Result<String, Failure> {
    match ask::ask(place, every) {
        Ok(Answer { code: 0, text }) => Ok(text),
        Ok(Answer { code, text }) => Err(Failure { code, why: text }),
        Err(why) => here(every).map_err(|failure| Failure {
            why: format!("{place}: {why}; {}", failure.why),
            ..failure
        }),
    }
}

/// Where Slurm's commands are. Gives what is said.
pub(crate) fn here(every: u64) -> Result<String, Failure> {
    let job = mark::job(var).map_err(|why| Failure { code: 3, why })?;
    if let Some(rank) = other_rank() {
        return Ok(format!("task {rank} leaves the mark to task 0"));
    }
    let minimum = minimum(&var("SLURMD_NODENAME").unwrap_or_default());
    let least = if every < minimum {
        format!("--every {every}: the site's least is {minimum}; ")
    } else {
        String::new()
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let comment = slurm::comment(&job)?;
    let edited =
        mark::decide(&comment, now, every.max(minimum)).map_err(|why| Failure { code: 1, why })?;
    Ok(match edited {
        Some(edited) => {
            slurm::set_comment(&job, &edited)?;
            format!("{least}job {job}: checkpoint marked at {now}")
        }
        None => format!("{least}job {job}: the last mark is young enough"),
    })
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The task's number when it is not the first.
fn other_rank() -> Option<String> {
    var("SLURM_PROCID").filter(|rank| rank != "0" && !rank.is_empty())
}

/// The site's least time between marks. Its file may be out of sight, or wrong: the job is not to suffer.
fn minimum(node: &str) -> u64 {
    sgpu_config::read(Path::new(sgpu_config::DEFAULT_PATH), node)
        .ok()
        .and_then(|sections| sections.checkpoint.mark_every_minimum)
        .unwrap_or(EVERY_MINIMUM_SECONDS)
}
