//! What is done for each task.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

use slurm_plugin::log;
use slurm_plugin::spank::{Overwrite, Spank};
use spank_core::checkpoint::orders::Orders;
use spank_core::checkpoint::request::{self, Request};

use crate::{OPTIONS, end_time, flag, launch, settings};

/// Slurm's step of nothing but a job's outer container, and that of `salloc`'s shell (`slurm/slurm.h`).
const UNSIGNALLED_STEPS: [u32; 2] = [0xffff_fffc, 0xffff_fffa];

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
    let (Some(_), Some(settings)) = (wanted(spank), settings::get()) else {
        return;
    };
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(&settings.relay);
    match opened {
        Ok(file) => *RELAY.lock().unwrap_or_else(PoisonError::into_inner) = Some(file),
        Err(error) => off(format_args!("{}: {error}", settings.relay.display())),
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
    let orders = Orders {
        request,
        end_unix: end_time::get(spank),
        file,
        child: None,
    };
    environment(spank, &orders);
    if let Err(error) = launch::launch(spank, relay, orders) {
        off(error);
    }
}

fn off(why: impl std::fmt::Display) {
    log::error(format_args!(
        "{why}: the task runs without checkpoint signals"
    ));
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
    let base = spank.getenv("TMPDIR").filter(|base| base.starts_with('/'));
    let base = base.as_deref().unwrap_or("/tmp");
    let number = |result: Result<u32, _>| result.ok();
    let task = format!(
        "{}.{}.{}",
        number(spank.job_id())?,
        number(spank.step_id())?,
        spank.getenv("SLURM_PROCID")?
    );
    match flag::prepare(Path::new(base), &task) {
        Ok(path) => path.into_os_string().into_string().ok(),
        Err(error) => {
            log::error(format_args!("no flag file in {base}: {error}"));
            None
        }
    }
}

fn environment(spank: &Spank<'_>, orders: &Orders) {
    let set = |name, value: &str| {
        if let Err(error) = spank.setenv(name, value, Overwrite::Replace) {
            log::error(format_args!("{name}: {error}"));
        }
    };
    set("SGPU_CKPT_SIGNAL", &orders.request.forward.to_string());
    set(
        "SGPU_CKPT_GRACE",
        &orders.request.before_seconds.to_string(),
    );
    match &orders.file {
        Some(file) => set("SGPU_CKPT_FILE", file),
        // One of the batch script's is not this step's.
        None => drop(spank.unsetenv("SGPU_CKPT_FILE")),
    }
    set("SGPU_RESTART_COUNT", &restarts(spank).to_string());
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
