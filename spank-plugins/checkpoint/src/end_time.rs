//! When the job ends, from slurmctld: up to 22.05 a task is not told.

use std::sync::atomic::{AtomicU64, Ordering};

use slurm_plugin::log;
use slurm_plugin::spank::{SLURM_VERSION_NUMBER, Spank};

/// The release from which on a task finds `SLURM_JOB_END_TIME`: 23.02.
const TOLD_SINCE: u32 = 0x17_02_00;

/// What slurmctld said, in seconds since 1970; 0: nothing. Asked once for all of the step's tasks here, which
/// are forked afterwards.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Asks slurmctld where the task will not be told.
pub(crate) fn ask(spank: &Spank<'_>) {
    type GetEndTime = unsafe extern "C" fn(u32, *mut libc::time_t) -> libc::c_int;
    if SLURM_VERSION_NUMBER >= TOLD_SINCE {
        return;
    }
    // SAFETY: dlsym takes a NUL-terminated name; RTLD_DEFAULT searches the program and its libraries.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"slurm_get_end_time".as_ptr()) };
    let Ok(job) = spank.job_id() else { return };
    if symbol.is_null() {
        log::error("slurm_get_end_time is not there: no signal before the job's end");
        return;
    }
    // SAFETY: the function's type in every release (`slurm/slurm.h`).
    let get: GetEndTime = unsafe { std::mem::transmute(symbol) };
    let mut end: libc::time_t = 0;
    // SAFETY: Slurm writes the time.
    let code = unsafe { get(job, &raw mut end) };
    match (code, u64::try_from(end)) {
        (0, Ok(end)) => ASKED.store(end, Ordering::Relaxed),
        _ => log::error("slurmctld does not say when the job ends: no signal before its end"),
    }
}

/// When the job ends, in seconds since 1970.
pub(crate) fn get(spank: &Spank<'_>) -> Option<u64> {
    match ASKED.load(Ordering::Relaxed) {
        0 => spank.getenv("SLURM_JOB_END_TIME")?.parse().ok(),
        asked => Some(asked),
    }
}
