//! What the steps of a job have of their GPUs on this node, so that no joule is counted twice.
//!
//! A batch script runs beside the steps that it starts, on the same GPUs. Each step writes down which spans of
//! its GPUs' counters are its own, and the batch script pays for what is in none.
//!
//! Slurm's extern step (`PrologFlags=Contain`) is not one of them: it pays for all that the job's GPUs use
//! from beginning to end, since slurmctld takes its energy for the job's then, and no other step's
//! (`_internal_step_complete` in 22.05 src/slurmctld/step_mgr.c, 24.11 src/stepmgr/stepmgr.c).

use std::ffi::{OsStr, OsString};
use std::path::Path;

use gpu::run_file::{Folder, RunFileError};
use gres_gpu_core::ledger::{self, Claim, Span};
use slurm_headers::internal::{SLURM_BATCH_SCRIPT, SLURM_EXTERN_CONT, SLURM_INTERACTIVE_STEP};
use slurm_plugin::{host, log};

/// A folder per job that has a batch script or interactive step on this node, and in it a file per step.
const FOLDER: &str = "/run/sgpu/jobs";
/// More than the spans of thousands of GPUs.
const MOST_BYTES: u64 = 1 << 20;

/// What of a job's energy a step pays for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    /// What its own GPUs use.
    Own,
    /// What all of the job's GPUs use and no other step has.
    Rest,
}

/// The job of this step, if some step of it pays for the rest.
#[derive(Debug)]
pub(crate) struct Job {
    job: u32,
    step: u32,
    part: Part,
    /// Whether the log has told that what the step has cannot be written down.
    told: bool,
}

impl Job {
    /// The job on this node. `None` for a step that has nothing to do with the others: the extern step, and
    /// where nobody pays for the rest, in an `srun` job or on another node than the batch script's.
    pub(crate) fn of_step(job: u32, step: u32) -> Option<Self> {
        let part = match step {
            SLURM_EXTERN_CONT => return None,
            SLURM_BATCH_SCRIPT => Part::Rest,
            SLURM_INTERACTIVE_STEP if !host::runs_step(job, SLURM_BATCH_SCRIPT) => Part::Rest,
            _ if has_rest(job) => Part::Own,
            _ => return None,
        };
        if part == Part::Rest
            && let Err(error) = clear_ended(job)
        {
            log::error(format_args!(
                "what ended jobs have paid is not removed: {error}"
            ));
        }
        Some(Self {
            job,
            step,
            part,
            told: false,
        })
    }

    /// These spans are the step's now.
    pub(crate) fn claim(&mut self, spans: &[Span]) {
        if self.part == Part::Rest {
            return;
        }
        if let Err(error) = write(self.job, self.step, spans)
            && !std::mem::replace(&mut self.told, true)
        {
            log::error(format_args!(
                "the batch script of job {} pays for this step's energy too: {error}",
                self.job
            ));
        }
    }

    /// The joules of these spans that the step pays for; `None` when all of them are its own.
    pub(crate) fn rest(&self, spans: &[Span]) -> Option<u64> {
        (self.part == Part::Rest).then(|| {
            let claims = claims(self.job).unwrap_or_else(|error| {
                log::debug(format_args!("what steps have paid is not known: {error}"));
                Vec::new()
            });
            ledger::unclaimed(spans, &claims)
        })
    }
}

fn write(job: u32, step: u32, spans: &[Span]) -> Result<(), RunFileError> {
    let path = Path::new(FOLDER);
    if let Some(above) = path.parent() {
        Folder::make(above, 0o755)?;
    }
    Folder::make(path, 0o700)?
        .make_within(&name(job), 0o700)?
        .write(&name(step), &ledger::to_text(spans))
}

/// What the job's steps have.
fn claims(job: u32) -> Result<Vec<Claim>, RunFileError> {
    let Some(jobs) = Folder::open(Path::new(FOLDER))? else {
        return Ok(Vec::new());
    };
    let Some(steps) = jobs.open_within(&name(job))? else {
        return Ok(Vec::new());
    };
    let mut claims = Vec::new();
    for file in steps.names()? {
        // Other names are of files that are being written.
        if let Some(step) = number(&file) {
            claims.push(Claim {
                // Before the file is read: a step writes its last reading while it runs.
                runs: host::runs_step(job, step),
                spans: ledger::parse(&steps.read(&file, MOST_BYTES)?),
            });
        }
    }
    Ok(claims)
}

fn name(number: u32) -> OsString {
    number.to_string().into()
}

fn number(name: &OsStr) -> Option<u32> {
    name.to_str()?.parse().ok()
}

/// Whether a batch script or an interactive step of the job runs on this node.
fn has_rest(job: u32) -> bool {
    [SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP]
        .into_iter()
        .any(|step| host::runs_step(job, step))
}

/// Removes what jobs that have ended left, and an earlier run of this job.
fn clear_ended(own: u32) -> Result<(), RunFileError> {
    let Some(jobs) = Folder::open(Path::new(FOLDER))? else {
        return Ok(());
    };
    for folder in jobs.names()? {
        if number(&folder).is_some_and(|job| job == own || !has_rest(job)) {
            jobs.remove_folder(&folder)?;
        }
    }
    Ok(())
}
