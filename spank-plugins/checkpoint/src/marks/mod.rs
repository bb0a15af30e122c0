//! Marks out of containers. Before the task's process enters one, it leaves a process of ours outside, the waiter;
//! once it is inside, the waiter becomes `sgpu-ckpt serve`. Without a container the waiter ends.
//!
//! It is the step's first task alone that marks, so the others have none. Whatever goes wrong, the task runs, and
//! `sgpu-ckpt mark` says that nobody answers.

mod exec;
mod groups;
mod socket;
mod user;
mod view;
mod waiter;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use slurm_plugin::log;
use slurm_plugin::spank::Spank;
use spank_core::checkpoint::marks;

use user::User;
use view::View;
use waiter::Waiter;

/// What marks for the task.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Where it is asked.
    pub(crate) place: String,
    /// It lives as long as the other end of this.
    pub(crate) lifeline: OwnedFd,
}

/// What the task's process knows of the waiter.
#[derive(Debug)]
struct Outside {
    view: View,
    waiter: libc::pid_t,
    listener: OwnedFd,
    marks: Marks,
}

impl Outside {
    /// Ends the waiter.
    fn dismiss(self) {
        drop(self.marks.lifeline);
        waiter::wait_gone(self.waiter);
    }
}

static OUTSIDE: Mutex<Option<Outside>> = Mutex::new(None);

/// In the task's process, as root, outside of any container: starts the waiter.
pub(crate) fn prepare(spank: &Spank<'_>, programs: &[PathBuf]) {
    if spank.global_task_id() != Ok(0) {
        return;
    }
    match start(spank, programs) {
        Ok(outside) => *OUTSIDE.lock().unwrap_or_else(PoisonError::into_inner) = Some(outside),
        Err(why) => log::debug(format_args!("no marks out of a container: {why}")),
    }
}

/// In the task's process, as the user, in its container: tells the waiter to serve. `None`, and the waiter ends,
/// where there is no container, or where that cannot be.
pub(crate) fn serve(spank: &Spank<'_>) -> Option<Marks> {
    let mut outside = OUTSIDE.lock().unwrap_or_else(PoisonError::into_inner);
    let outside = outside.take()?;
    // Of a heterogeneous step each component has a first task.
    let first = spank.getenv("SLURM_PROCID").as_deref() == Some("0");
    if !first || View::here().as_ref() == Some(&outside.view) {
        outside.dismiss();
        return None;
    }
    let words = marks::environment(|name| spank.getenv(name)).join("\n");
    // From here on the user's credentials are the socket's.
    let told = socket::listen(&outside.listener)
        .and_then(|()| socket::send(&outside.marks.lifeline, words.as_bytes()));
    match told {
        Ok(()) => Some(outside.marks),
        Err(error) => {
            log::debug(format_args!("no marks out of the container: {error}"));
            outside.dismiss();
            None
        }
    }
}

fn start(spank: &Spank<'_>, programs: &[PathBuf]) -> Result<Outside, String> {
    let view = View::here().ok_or("/ or /proc cannot be seen")?;
    let program = exec::open(programs).ok_or("no sgpu-ckpt beside the plugin")?;
    let user = User::of(spank).map_err(|error| error.to_string())?;
    let (listener, name) = socket::bind().map_err(|error| error.to_string())?;
    let (lifeline, other) = socket::pair().map_err(|error| error.to_string())?;
    let waiter = Waiter {
        lifeline: other,
        listener: &listener,
        program,
        user,
    };
    let waiter = waiter.start(&lifeline).map_err(|error| error.to_string())?;
    Ok(Outside {
        view,
        waiter,
        listener,
        marks: Marks {
            place: format!("@{name}"),
            lifeline,
        },
    })
}
