//! What the steps of a job have paid for on this node, so that no joule is counted twice.
//!
//! A batch script runs beside the steps that it starts, on the same GPUs. So each step adds what it pays for
//! to a number in a file, and the batch script pays for the rest.
//!
//! Slurm's extern step (`PrologFlags=Contain`) is not one of them: it pays for all that the job's GPUs use
//! from beginning to end, since slurmctld takes its energy for the job's then, and no other step's
//! (`_internal_step_complete` in 22.05 src/slurmctld/step_mgr.c, 24.11 src/stepmgr/stepmgr.c).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use gpu::run_file;
use nix::fcntl::{Flock, FlockArg};
use slurm_headers::internal::{SLURM_BATCH_SCRIPT, SLURM_EXTERN_CONT, SLURM_INTERACTIVE_STEP};
use slurm_plugin::{host, log};

/// One file per job that has a batch script or interactive step on this node.
const FOLDER: &str = "/run/sgpu/jobs";
/// Another step holds a job's file for microseconds.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// What of a job's energy a step pays for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    /// What its own GPUs use.
    Own,
    /// What all of the job's GPUs use and no other step pays for.
    Rest,
}

/// The job of this step, if some step of it pays for the rest.
#[derive(Debug)]
pub(crate) struct Job {
    file: PathBuf,
    part: Part,
    /// What is in the file by this step, in joules.
    paid: u64,
}

impl Job {
    /// The job on this node. `None` for a step that has nothing to do with the others: the extern step, and
    /// where nobody pays for the rest, in an `srun` job or on another node than the batch script's.
    pub(crate) fn of_step(job: u32, step: u32) -> Option<Self> {
        let part = match step {
            SLURM_EXTERN_CONT => return None,
            SLURM_BATCH_SCRIPT | SLURM_INTERACTIVE_STEP => Part::Rest,
            _ => Part::Own,
        };
        if part == Part::Own && !has_rest(job) {
            return None;
        }
        if part == Part::Rest {
            clear_ended(job);
        }
        let file = Path::new(FOLDER).join(job.to_string());
        Some(Self {
            file,
            part,
            paid: 0,
        })
    }

    pub(crate) fn part(&self) -> Part {
        self.part
    }

    /// This step has paid for so many joules now, altogether.
    pub(crate) fn pay(&mut self, joules: u64) {
        let more = joules.saturating_sub(self.paid);
        if self.part == Part::Rest || more == 0 {
            return;
        }
        match self.add(more) {
            Ok(()) => self.paid = joules,
            Err(error) => log::debug(format_args!("{}: {error}", self.file.display())),
        }
    }

    fn add(&self, joules: u64) -> Result<(), Box<dyn std::error::Error>> {
        let name = self.file.file_name().ok_or("no file name")?;
        run_file::make_folder(Path::new(FOLDER).parent().ok_or("no folder")?)?;
        let mut file = run_file::make_folder(Path::new(FOLDER))?.open_to_change(name)?;
        for _ in 0..TRIES {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(locked) => {
                    let sum = read(&locked).saturating_add(joules);
                    // Always as many digits, so that no old ones are left behind.
                    locked.write_all_at(format!("{sum:020}\n").as_bytes(), 0)?;
                    return Ok(());
                }
                Err((unlocked, _)) => file = unlocked,
            }
            sleep(PAUSE);
        }
        Err("another step holds it".into())
    }

    /// What the job's other steps have paid for, in joules.
    pub(crate) fn paid_by_steps(&self) -> u64 {
        File::open(&self.file).map_or(0, |file| read(&file))
    }
}

fn read(file: &File) -> u64 {
    let mut digits = [0; 20];
    match file.read_exact_at(&mut digits, 0) {
        Ok(()) => std::str::from_utf8(&digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0),
        Err(_) => 0,
    }
}

/// Whether a batch script or an interactive step of the job runs on this node.
fn has_rest(job: u32) -> bool {
    [SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP]
        .into_iter()
        .any(|step| host::runs_step(job, step))
}

/// Removes the files of jobs that have ended, and what an earlier run of this job left.
fn clear_ended(own: u32) {
    let Ok(entries) = fs::read_dir(FOLDER) else {
        return;
    };
    for entry in entries.flatten() {
        let job = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if job.is_none_or(|job: u32| job == own || !has_rest(job)) {
            // Another step may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}
