//! What is done for each task.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{SystemTime, UNIX_EPOCH};

use sgpu_config::request::{self, Request};
use slurm_plugin::log;
use slurm_plugin::spank::{Overwrite, Spank};
use spank_core::checkpoint::marks::VARIABLE;
use spank_core::checkpoint::orders::Orders;

use crate::{OPTIONS, end_time, fds, flag, launch, marks, settings};

/// Slurm's step of nothing but a job's outer container, and that of `salloc`'s shell (`slurm/slurm.h`).
const UNSIGNALLED_STEPS: [u32; 2] = [0xffff_fffc, 0xffff_fffa];

/// What the program gets, and when it will.
const SIGNAL: &str = "SGPU_CKPT_SIGNAL";
/// How long before, in seconds.
const GRACE: &str = "SGPU_CKPT_GRACE";
/// The flag file.
const FLAG: &str = "SGPU_CKPT_FILE";

/// The relay, open in the task's process until it is started.
static RELAY: Mutex<Option<File>> = Mutex::new(None);

/// Before the step's tasks are made.
pub(crate) fn before_all(spank: &Spank<'_>) {
    if wanted(spank).is_some() {
        end_time::ask(spank);
    }
}

/// In the task's process, as root.
pub(crate) fn as_root(spank: &Spank<'_>) {
    // The batch script's are not this step's.
    for name in [VARIABLE, SIGNAL, GRACE, FLAG] {
        let _ = spank.unsetenv(name);
    }
    let (Some(_), Some(settings)) = (wanted(spank), settings::get()) else {
        return;
    };
    if second() {
        return;
    }
    match launch::open(&settings.relay) {
        Ok(file) => {
            // Where slurmstepd puts the task's standard input and output it would be gone.
            let file = fds::above_standard(file.into()).map(File::from).ok();
            *RELAY.lock().unwrap_or_else(PoisonError::into_inner) = file;
            if let Some(ckpt) = &settings.ckpt {
                marks::prepare(spank, ckpt);
            }
        }
        Err(error) => off(format_args!(
            "the relay {}: {error}",
            settings.relay.display()
        )),
    }
}

/// In the task's process, as the user, in the task's container.
pub(crate) fn start(spank: &Spank<'_>) {
    let Some(request) = wanted(spank) else {
        return;
    };
    let relay = RELAY.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(relay) = relay else {
        return;
    };
    let file = request.file.then(|| flag_file(spank)).flatten();
    let marks = marks::serve(spank);
    let orders = Orders {
        request,
        end_unix: end_time::get(spank),
        file,
        child: None,
        lifeline: marks.as_ref().map(|marks| marks.lifeline.as_raw_fd()),
    };
    environment(spank, &orders);
    tell_of_a_short_job(spank, &orders);
    let lifeline = marks.map(|marks| {
        set(spank, VARIABLE, &marks.place);
        marks.lifeline
    });
    if let Err(error) = launch::launch(spank, relay, orders, lifeline) {
        let _ = spank.unsetenv(VARIABLE);
        off(error);
    }
}

/// Whether another copy of this plugin has been here: one relay is enough, and a second is closed by the start of
/// the first. Told by a variable of this process alone, which the task does not get.
#[expect(clippy::disallowed_methods, reason = "a process with one thread")]
fn second() -> bool {
    const TAKEN: &str = "SGPU_CKPT_TAKEN";
    let taken = std::env::var_os(TAKEN).is_some();
    // SAFETY: this process has one thread: slurmstepd forked it for the task.
    unsafe { std::env::set_var(TAKEN, "1") };
    taken
}

/// Who has asked reads it on the step's standard error; of a site's default the log alone tells.
fn off(why: impl std::fmt::Display) {
    let line = format_args!("{why}: the task runs without checkpoint signals");
    if OPTIONS.given(0).is_some() {
        log::error(line);
    } else {
        log::info(line);
    }
}

/// Says once that the clock will not tell, to who has asked.
fn tell_of_a_short_job(spank: &Spank<'_>, orders: &Orders) {
    let is_first = spank.getenv("SLURM_PROCID").is_some_and(|rank| rank == "0");
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let before = orders.request.before_seconds;
    let over = orders
        .end_unix
        .is_some_and(|end| end <= now.saturating_add(u64::from(before)));
    if is_first && over && OPTIONS.given(0).is_some() {
        log::tell_user(format_args!(
            "--checkpoint-signal: the job ends in less than {before} s: a signal or a preemption will tell its \
             program, the clock will not"
        ));
    }
}

/// What the job asks for, or the site for it.
fn wanted(spank: &Spank<'_>) -> Option<Request> {
    if UNSIGNALLED_STEPS.contains(&spank.step_id().ok()?) {
        return None;
    }
    match OPTIONS.given(0) {
        Some(value) => request::parse(&value).ok().flatten(),
        None => settings::get()?.default,
    }
}

fn flag_file(spank: &Spank<'_>) -> Option<String> {
    let own = spank.getenv("TMPDIR").filter(|base| base.starts_with('/'));
    let number = |result: Result<u32, _>| result.ok();
    let task = format!(
        "{}.{}.{}",
        number(spank.job_id())?,
        number(spank.step_id())?,
        spank.getenv("SLURM_PROCID")?
    );
    // A TMPDIR that does not serve becomes /tmp: so does Slurm, after this hook.
    let bases = own.as_deref().into_iter().chain(["/tmp"]);
    let mut failed = String::new();
    for base in bases {
        match flag::prepare(Path::new(base), &task) {
            Ok(path) => return path.into_os_string().into_string().ok(),
            Err(error) => failed = format!("no flag file in {base}: {error}"),
        }
    }
    log::error(failed);
    None
}

fn environment(spank: &Spank<'_>, orders: &Orders) {
    let set = |name, value: &str| set(spank, name, value);
    set(SIGNAL, &orders.request.forward.to_string());
    set(GRACE, &orders.request.before_seconds.to_string());
    if let Some(file) = &orders.file {
        set(FLAG, file);
    }
    set("SGPU_RESTART_COUNT", &restarts(spank).to_string());
}

fn set(spank: &Spank<'_>, name: &str, value: &str) {
    if let Err(error) = spank.setenv(name, value, Overwrite::Replace) {
        log::error(format_args!("{name}: {error}"));
    }
}

/// How often the job was requeued. Slurm's own number is 0 in the steps that srun makes; those have the batch
/// script's variable.
fn restarts(spank: &Spank<'_>) -> u32 {
    spank
        .getenv("SLURM_RESTART_COUNT")
        .and_then(|count| count.parse().ok())
        .or_else(|| spank.restart_count().ok())
        .unwrap_or(0)
}
