//! GPU-hours and energy of the jobs, from SlurmDBD.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use harness::Cluster;

use crate::jobs::Job;
use crate::show;
use crate::watts;

pub(crate) fn tell(cluster: &Cluster, jobs: &[Job]) -> Result<()> {
    show::chapter("GPU-hours and energy");
    let list = jobs
        .iter()
        .map(|job| job.id.to_string())
        .collect::<Vec<_>>()
        .join(",");
    let words = [
        "-P",
        "-n",
        "-j",
        &list,
        "-o",
        "JobID,State,ElapsedRaw,AllocTRES,ConsumedEnergyRaw",
    ];
    show::command("sacct", &words);
    let steps = cluster
        .wait_until("the jobs in sacct", Duration::from_secs(60), || {
            let said = cluster
                .run("sacct", words)
                .map_err(|error| error.to_string())?;
            let steps: Vec<_> = said.stdout.lines().filter_map(Step::read).collect();
            if steps.len() >= jobs.len() {
                Ok(steps)
            } else {
                Err(said.to_string())
            }
        })
        .context("SlurmDBD has not heard of the jobs")?;
    let mut rows = Vec::new();
    for job in jobs {
        let Some(step) = steps
            .iter()
            .find(|step| step.name == format!("{}.0", job.id))
        else {
            bail!("sacct shows no step of job {}", job.id);
        };
        let lasted = lasted(cluster, job, &step.name)?;
        let scenario: f64 = job.gpus.iter().map(|gpu| watts(*gpu)).sum();
        rows.push(vec![
            step.name.clone(),
            step.gpus.to_string(),
            step.seconds.to_string(),
            format!("{:.4}", step.gpus * step.seconds / 3600.0),
            step.joules.to_string(),
            format!("{lasted:.1}"),
            format!("{:.0}", step.joules / lasted),
            // A first reading that is half a second old adds that, a last one takes it away.
            format!("{scenario:.0} ± {:.0}", scenario * 0.5 / lasted),
        ]);
    }
    show::table(
        &[
            "STEP",
            "GPUS",
            "ELAPSED",
            "GPU-HOURS",
            "JOULES",
            "LASTED",
            "WATTS",
            "SCENARIO",
        ],
        &rows,
    );
    println!(
        "\nELAPSED is sacct's, in whole seconds; LASTED is by slurmd's log, from a step's launch to its end, and \
         WATTS are JOULES by that.\nSCENARIO is what the step's fake GPUs draw: {:.0} W each, the last two of a \
         node {:.0} W. Steps that begin or end\nwithin half a second share a reading of the counters, hence the ±.",
        watts(0),
        watts(7)
    );
    Ok(())
}

/// How long a step lasted, to the millisecond: slurmd's log has its launch and its end.
fn lasted(cluster: &Cluster, job: &Job, step: &str) -> Result<f64> {
    let times = cluster.wait_until(
        "the step's end in slurmd's log",
        Duration::from_secs(10),
        || {
            let log = cluster.slurmd_log(&job.node);
            let time = |of: &str| log.lines().find(|line| line.contains(of)).and_then(time_of);
            let begin = time(&format!("launch task StepId={step} "));
            let end = time(&format!("[{step}] done with "));
            begin
                .zip(end)
                .ok_or_else(|| format!("step {step}: {begin:?} to {end:?}"))
        },
    )?;
    Ok((times.1 - times.0).rem_euclid(86_400.0))
}

/// The seconds since midnight of a line of a log: `[2026-11-30T10:13:43.084] …`.
fn time_of(line: &str) -> Option<f64> {
    let (_, clock) = line.strip_prefix('[')?.split_once(']')?.0.split_once('T')?;
    clock.split(':').try_fold(0.0, |sum, part| {
        Some(sum * 60.0 + part.parse::<f64>().ok()?)
    })
}

struct Step {
    name: String,
    seconds: f64,
    gpus: f64,
    joules: f64,
}

impl Step {
    /// A completed step with GPUs, from a line of sacct.
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split('|');
        let name = fields
            .next()
            .filter(|name| name.ends_with(".0"))?
            .to_owned();
        fields.next().filter(|state| *state == "COMPLETED")?;
        let seconds = fields.next()?.parse().ok()?;
        let gpus = fields
            .next()?
            .split(',')
            .find_map(|tres| tres.strip_prefix("gres/gpu="))?
            .parse()
            .ok()?;
        Some(Self {
            name,
            seconds,
            gpus,
            joules: fields.next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_has_its_time() {
        let at = |line: &str| time_of(line);
        assert_eq!(
            at("[2026-11-30T10:13:43.084] [1.0] done with job"),
            Some(36_823.084)
        );
        assert_eq!(at("no time"), None);
    }

    #[test]
    fn a_line_of_sacct_is_a_step() {
        let step = Step::read("2.0|COMPLETED|31|cpu=4,gres/gpu:h100=4,gres/gpu=4|64480").unwrap();
        assert_eq!(
            (step.name.as_str(), step.gpus, step.joules),
            ("2.0", 4.0, 64_480.0)
        );
        assert!(Step::read("2.0|RUNNING|31|gres/gpu=4|1").is_none());
    }
}
