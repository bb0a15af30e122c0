//! Slurm's own commands: they find its configuration, its plugins and munge as the site has them.

use std::process::{Command, Stdio};

use crate::Failure;

/// What squeue prints for a job without a comment.
const NONE: &str = "(null)";

/// A job's comment. Of squeue, which prints it alone: in `scontrol show job` another field may look like it.
pub(crate) fn comment(job: &str) -> Result<String, Failure> {
    let said = run("squeue", &["-h", "-j", job, "-o", "%k"])?;
    let comment = said.strip_suffix('\n').unwrap_or(&said);
    Ok(if comment == NONE { "" } else { comment }.to_owned())
}

/// Sets a job's comment.
pub(crate) fn set_comment(job: &str, comment: &str) -> Result<(), Failure> {
    let (job, comment) = (format!("JobId={job}"), format!("Comment={comment}"));
    run("scontrol", &["update", &job, &comment]).map(drop)
}

fn run(program: &str, words: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new(program);
    // Formats and clusters that the user has set for his own eyes.
    for name in [
        "SQUEUE_FORMAT",
        "SQUEUE_FORMAT2",
        "SQUEUE_ALL",
        "SLURM_CLUSTERS",
    ] {
        command.env_remove(name);
    }
    let output = command
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure {
            code: 4,
            why: format!(
                "{program}: {error}. A mark needs Slurm's commands, its configuration and munge; a \
                 container has them when they are mounted into it"
            ),
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure {
        code: 1,
        why: format!("{program} ended with {}: {}", output.status, said.trim()),
    })
}
