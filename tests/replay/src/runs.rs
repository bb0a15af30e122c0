//! What became of each job.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};

use crate::trace::time;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The job was done.
    Completed,
    /// Another took its place.
    Preempted,
}

/// One run of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// When it began, in seconds since the replay's start.
    pub start_s: u64,
    /// When it ended.
    pub end_s: u64,
    /// How.
    pub end: End,
}

/// A job, as it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Went {
    /// When Slurm had it for the first time.
    pub submit_s: u64,
    /// Its runs, by time; the last one completed.
    pub runs: Vec<Run>,
    /// When it wrote checkpoints.
    pub checkpoints_s: Vec<u64>,
}

/// What `sacct -D -X -P -n -o JobName,Submit,Start,End,State` says of jobs named `j0`, `j1` ..., in their order.
/// `zero` is the replay's start.
///
/// # Errors
/// A job is missing, or did something else than to complete or to be preempted.
pub fn parse(sacct: &str, jobs: usize, zero: u64) -> Result<Vec<Went>> {
    let mut by_job: HashMap<usize, Went> = HashMap::new();
    for line in sacct.lines() {
        let columns: Vec<&str> = line.split('|').collect();
        let [name, submit, start, end, state] = columns[..] else {
            anyhow::bail!("{line:?} has not five columns");
        };
        let Some(job) = name.strip_prefix('j').and_then(|n| n.parse().ok()) else {
            continue;
        };
        let at = |text: &str| -> Result<u64> {
            let at = time(text).with_context(|| format!("{line}: {text} is no time"))?;
            Ok(at.saturating_sub(zero))
        };
        let submit_s = at(submit)?;
        let went = by_job.entry(job).or_insert_with(|| Went {
            submit_s,
            runs: Vec::new(),
            checkpoints_s: Vec::new(),
        });
        went.submit_s = went.submit_s.min(submit_s);
        // Requeued, and not begun again before its next preemption.
        if start == "Unknown" || start == "None" {
            continue;
        }
        let end_kind = match state.split(' ').next().unwrap_or_default() {
            "COMPLETED" => End::Completed,
            "PREEMPTED" | "REQUEUED" => End::Preempted,
            other => anyhow::bail!("job {name} is {other}: {line}"),
        };
        went.runs.push(Run {
            start_s: at(start)?,
            end_s: at(end)?,
            end: end_kind,
        });
    }
    let all: Vec<Went> = (0..jobs).filter_map(|job| by_job.remove(&job)).collect();
    ensure!(all.len() == jobs, "{} of {jobs} jobs are known", all.len());
    all.into_iter()
        .zip(0..)
        .map(|(mut went, job): (Went, usize)| {
            went.runs.sort_by_key(|run| run.start_s);
            let done = went.runs.last().map(|run| run.end);
            ensure!(done == Some(End::Completed), "job j{job} is not done");
            Ok(went)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_put_in_order_and_the_first_submission_counts() {
        let text = "\
j1|2026-01-01T00:00:50|2026-01-01T00:01:00|2026-01-01T00:02:00|COMPLETED
j0|2026-01-01T00:05:00|2026-01-01T00:07:00|2026-01-01T00:09:00|COMPLETED
j0|2026-01-01T00:00:10|2026-01-01T00:00:20|2026-01-01T00:05:00|PREEMPTED
other|2026-01-01T00:00:10|2026-01-01T00:00:20|2026-01-01T00:05:00|FAILED
";
        let went = parse(text, 2, 1_767_225_600).unwrap();
        assert_eq!((went[0].submit_s, went[1].submit_s), (10, 50));
        let ends: Vec<End> = went[0].runs.iter().map(|run| run.end).collect();
        assert_eq!(ends, [End::Preempted, End::Completed]);
        assert_eq!(went[0].runs[1].start_s, 420);
    }

    #[test]
    fn what_did_not_end_well_is_named() {
        let line = "j0|2026-01-01T00:00:10|2026-01-01T00:00:20|2026-01-01T00:05:00|NODE_FAIL\n";
        let error = parse(line, 1, 0).unwrap_err().to_string();
        assert!(error.contains("NODE_FAIL"), "{error}");
        assert!(parse("", 1, 0).unwrap_err().to_string().contains("0 of 1"));
        let running = "j0|2026-01-01T00:00:10|2026-01-01T00:00:20|2026-01-01T00:05:00|PREEMPTED\n";
        assert!(
            parse(running, 1, 0)
                .unwrap_err()
                .to_string()
                .contains("not done")
        );
    }
}
