//! `sgpu-ckpt mark`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use spank_core::checkpoint::mark;

use crate::{Failure, slurm};

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
  4  squeue or scontrol is not here, as in many containers")]
pub(crate) struct Args {
    /// Leave a mark that is younger than this as it is, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    every: u64,
    /// Print errors only
    #[arg(long, short)]
    quiet: bool,
}

/// The least of `--every` where the site does not say: each mark takes locks in slurmctld.
const EVERY_MINIMUM_SECONDS: u64 = 60;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let say = |text: String| {
        if !args.quiet {
            println!("{text}");
        }
    };
    let var = |name: &str| std::env::var(name).ok();
    let job = mark::job(var).map_err(|why| Failure { code: 3, why })?;
    if let Some(rank) = var("SLURM_PROCID").filter(|rank| rank != "0") {
        say(format!("task {rank} leaves the mark to task 0"));
        return Ok(());
    }
    let minimum = minimum(&var("SLURMD_NODENAME").unwrap_or_default());
    if args.every < minimum {
        say(format!(
            "--every {}: the site's least is {minimum}",
            args.every
        ));
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let comment = slurm::comment(&job)?;
    let edited = mark::decide(&comment, now, args.every.max(minimum))
        .map_err(|why| Failure { code: 1, why })?;
    match edited {
        Some(edited) => {
            slurm::set_comment(&job, &edited)?;
            say(format!("job {job}: checkpoint marked at {now}"));
        }
        None => say(format!("job {job}: the last mark is young enough")),
    }
    Ok(())
}

/// The site's least time between marks. Its file may be out of sight, or wrong: the job is not to suffer.
fn minimum(node: &str) -> u64 {
    sgpu_config::read(Path::new(sgpu_config::DEFAULT_PATH), node)
        .ok()
        .and_then(|sections| sections.checkpoint.mark_every_minimum)
        .unwrap_or(EVERY_MINIMUM_SECONDS)
}
