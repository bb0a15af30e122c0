//! Slurm's own commands: they find its configuration, its plugins and munge as the site has them.

use std::process::{Command, Stdio};

use crate::Failure;

/// What squeue prints for a job without a comment.
const NONE: &str = "(null)";

/// A job's comment. Of squeue, which prints it alone: in `scontrol show job` another field may look like it.
pub(crate) fn comment(job: &str) -> Result<String, Failure> {
    read_comment(job, &run("squeue", &["-h", "-j", job, "-o", "%A|%k"])?)
}

/// The comment in squeue's answer. Where there is none of the job, or one that is no text, it is not known: what
/// would be written then would take its place.
fn read_comment(job: &str, said: &[u8]) -> Result<String, Failure> {
    let failure = |why| Failure { code: 1, why };
    let said = std::str::from_utf8(said).map_err(|_| {
        failure(format!(
            "the Comment of job {job} is no text; it stays as it is"
        ))
    })?;
    let (number, comment) = said
        .split_once('|')
        .filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|(number, _)| !number.is_empty())
        .ok_or_else(|| failure(format!("squeue does not show job {job}")))?;
    let comment = comment.strip_suffix('\n').unwrap_or(comment);
    // A second job would be another's line, and a comment of several lines cannot be told from it.
    if comment.contains('\n') {
        return Err(failure(format!(
            "the Comment of job {job}, {number} for squeue, has several lines; it stays as it is"
        )));
    }
    Ok(if comment == NONE { "" } else { comment }.to_owned())
}

/// Sets a job's comment.
pub(crate) fn set_comment(job: &str, comment: &str) -> Result<(), Failure> {
    let (job, comment) = (format!("JobId={job}"), format!("Comment={comment}"));
    run("scontrol", &["update", &job, &comment]).map(drop)
}

fn run(program: &str, words: &[&str]) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new(program);
    // Formats, filters and clusters that the user has set for his own eyes.
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b"SQUEUE_") || bytes == b"SLURM_CLUSTERS" {
            command.env_remove(name);
        }
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
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure {
        code: 1,
        why: format!("{program} ended with {}: {}", output.status, said.trim()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_known_only_when_the_job_is_shown() {
        let read = |said: &[u8]| read_comment("5_2", said).map_err(|failure| failure.why);
        assert_eq!(read(b"71|keep | me\n").as_deref(), Ok("keep | me"));
        assert_eq!(read(b"71|(null)\n").as_deref(), Ok(""));
        assert_eq!(read(b"71|\n").as_deref(), Ok(""));
        for unknown in [
            &b""[..],
            b"\n",
            b"|a\n",
            b"x|a\n",
            b"71|a\n72|b\n",
            b"71|\xff\n",
        ] {
            assert!(read(unknown).is_err(), "{unknown:?}");
        }
    }
}
