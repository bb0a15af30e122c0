//! GPU-hours and energy of the jobs, from SlurmDBD.

use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Cluster, JobId};

use crate::show;

pub(crate) fn tell(cluster: &Cluster, jobs: Vec<JobId>) -> Result<()> {
    show::chapter("GPU-hours and energy");
    let list = jobs
        .iter()
        .map(ToString::to_string)
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
    let rows: Vec<_> = steps
        .iter()
        .map(|step| {
            let gpu_seconds = step.seconds * step.gpus;
            vec![
                step.name.clone(),
                step.gpus.to_string(),
                step.seconds.to_string(),
                format!("{:.4}", gpu_seconds / 3600.0),
                step.joules.to_string(),
                format!("{:.0}", step.joules / gpu_seconds),
            ]
        })
        .collect();
    show::table(
        &[
            "STEP",
            "GPUS",
            "SECONDS",
            "GPU-HOURS",
            "JOULES",
            "WATTS/GPU",
        ],
        &rows,
    );
    println!("\nThe fake GPUs draw 520 W each, the last two of a node 95 W.");
    Ok(())
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
