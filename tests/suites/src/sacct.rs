//! What SlurmDBD says of a job.

use std::collections::HashMap;
use std::time::Duration;

use harness::{Cluster, JobId};

/// One line of sacct: a job or one of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `42`, `42.0`, `42.batch`.
    pub name: String,
    /// As sacct words it.
    pub state: String,
    /// When it began, in seconds since 1970.
    pub start_unix: f64,
    /// When it ended.
    pub end_unix: f64,
    /// ConsumedEnergyRaw; `None` where sacct prints nothing.
    pub consumed_energy_joules: Option<f64>,
    /// TRESUsageInTot, by TRES.
    pub usage: HashMap<String, String>,
    /// AllocTRES, by TRES.
    pub allocated: HashMap<String, String>,
}

const FIELDS: &str = "JobID,State,Start,End,ConsumedEnergyRaw,TRESUsageInTot,AllocTRES";

/// Reads lines of `sacct -P -n -o FIELDS` with SLURM_TIME_FORMAT=%s.
///
/// # Panics
/// On a line of another form.
#[must_use]
pub fn parse(text: &str) -> Vec<Row> {
    let tres = |list: &str| {
        list.split(',')
            .filter_map(|item| item.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    };
    text.lines()
        .map(|line| {
            let fields: Vec<_> = line.split('|').collect();
            let [name, state, start, end, energy, usage, allocated] = fields[..] else {
                panic!("not a line of sacct: {line}")
            };
            Row {
                name: name.to_owned(),
                state: state.to_owned(),
                start_unix: start.parse().unwrap_or(f64::NAN),
                end_unix: end.parse().unwrap_or(f64::NAN),
                consumed_energy_joules: energy.parse().ok(),
                usage: tres(usage),
                allocated: tres(allocated),
            }
        })
        .collect()
}

/// What SlurmDBD has of a job and its steps by now.
///
/// # Panics
/// When sacct fails.
#[must_use]
pub fn of(cluster: &Cluster, job: JobId) -> Vec<Row> {
    let said = cluster
        .command("sacct")
        .args(["-P", "-n", "-j", &job.to_string(), "-o", FIELDS])
        .env("SLURM_TIME_FORMAT", "%s")
        .run()
        .unwrap();
    parse(&said.stdout)
}

/// Waits until SlurmDBD has a job and all of its steps in a state, and gives them.
///
/// # Panics
/// When it does not within a minute.
#[must_use]
pub fn wait(cluster: &Cluster, job: JobId, state: &str) -> Vec<Row> {
    cluster
        .wait_until(
            &format!("job {job} {state} in sacct"),
            Duration::from_secs(60),
            || {
                let rows = of(cluster, job);
                let done = |row: &Row| row.state == state && row.end_unix.is_finite();
                if rows.len() > 1 && rows.iter().all(done) {
                    Ok(rows)
                } else {
                    Err(format!("{rows:?}"))
                }
            },
        )
        .unwrap()
}

/// The step of a job by its name, `0` or `batch`.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn step(rows: &[Row], step: &str) -> Row {
    rows.iter()
        .find(|row| {
            row.name
                .split_once('.')
                .is_some_and(|(_, name)| name == step)
        })
        .unwrap_or_else(|| panic!("no step {step} in {rows:?}"))
        .clone()
}
