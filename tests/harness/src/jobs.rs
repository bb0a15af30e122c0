//! Jobs.

use std::cell::Cell;
use std::time::Duration;

use crate::files::put;
use crate::root::Ids;
use crate::{Cluster, Error, Result, User, wait};

/// A job's number.
pub type JobId = u32;

/// States that a job does not leave by itself.
const FINAL: [&str; 10] = [
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "BOOT_FAIL",
    "DEADLINE",
    "LAUNCH_FAILED",
    "REVOKED",
];

impl Cluster {
    /// Submits a batch script as alice, from her home.
    ///
    /// # Errors
    /// When sbatch refuses it.
    pub fn sbatch(&self, script: &str) -> Result<JobId> {
        self.sbatch_as(User::Alice, &[], script)
    }

    /// Submits a batch script as somebody, with options of sbatch. Without `-o`, its output is in
    /// `slurm-<id>.out` in the user's home; root's is another folder on each machine.
    ///
    /// # Errors
    /// When sbatch refuses it.
    pub fn sbatch_as(&self, user: User, options: &[&str], script: &str) -> Result<JobId> {
        let name = format!("{}/.job.sh", user.home());
        let ids = Ids {
            uid: user.uid(),
            gid: user.uid(),
        };
        let script = if script.starts_with("#!") {
            script.to_owned()
        } else {
            format!("#!/bin/bash\n{script}\n")
        };
        put(
            &self.cage.path(&self.controller, &name)?,
            script,
            ids,
            0o755,
        )?;
        let sbatch = self
            .command("sbatch")
            .args(["--parsable"])
            .args(options)
            .args([&name]);
        let out = sbatch.user(user).run()?.ok()?;
        // `12` or `12;cluster`
        let id = out
            .stdout
            .trim()
            .split(';')
            .next()
            .and_then(|id| id.parse().ok());
        id.ok_or_else(|| Error::Program(format!("no job id in {out}")))
    }

    /// What a job of [`Cluster::sbatch`] has printed so far.
    ///
    /// # Errors
    /// When it has no output file.
    pub fn job_output(&self, user: User, id: JobId) -> Result<String> {
        let path = format!("{}/slurm-{id}.out", user.home());
        let path = self.cage.path(&self.controller, &path)?;
        let read = std::fs::read(&path).map_err(Error::file("read", &path))?;
        Ok(String::from_utf8_lossy(&read).into_owned())
    }

    /// A field of `scontrol show job`.
    ///
    /// # Errors
    /// When there is no such job or field.
    pub fn job_field(&self, id: JobId, field: &str) -> Result<String> {
        let shown = self
            .run("scontrol", ["show", "job", "-o", &id.to_string()])?
            .ok()?;
        let value = shown.stdout.split_whitespace().find_map(|word| {
            let (name, value) = word.split_once('=')?;
            (name == field).then(|| value.to_owned())
        });
        value.ok_or_else(|| Error::Program(format!("no {field} in {}", shown.stdout)))
    }

    /// Waits until the job of a name runs, and gives its number.
    ///
    /// # Errors
    /// At the deadline.
    pub fn wait_running(&self, name: &str, deadline: Duration) -> Result<JobId> {
        self.wait_until(&format!("job {name} running"), deadline, || {
            let said = self
                .run("squeue", ["-h", "-n", name, "-t", "R", "-o", "%A"])
                .map_err(|error| error.to_string())?;
            said.stdout.trim().parse().map_err(|_| said.to_string())
        })
    }

    /// Waits until a job is in a state, as `scontrol` calls it. Ends early when it is in another
    /// one that it does not leave.
    ///
    /// # Errors
    /// At the deadline.
    pub fn wait_job_state(&self, id: JobId, state: &str, deadline: Duration) -> Result<()> {
        let stuck = Cell::new(false);
        let probe = || {
            let seen = self
                .job_field(id, "JobState")
                .map_err(|error| error.to_string())?;
            if seen == state {
                return Ok(());
            }
            stuck.set(FINAL.contains(&seen.as_str()));
            Err(format!(
                "{seen}, {}",
                self.job_field(id, "Reason").unwrap_or_default()
            ))
        };
        let fatal = || stuck.get().then(|| "it stays so".to_owned());
        wait::until(&format!("job {id} {state}"), deadline, probe, fatal, || {
            self.logs.tails(25)
        })
    }
}
