//! SPANK plugin `spank_sgpu_ckpt`: `--checkpoint-signal` tells a job's program when to write a checkpoint.
//!
//! Each task gets a parent of ours, `sgpu-sigrelay`, which does the telling; what it may do is in
//! `spank_core::checkpoint`. It is opened while root's own files are in sight and started by descriptor, so
//! that a plugin which puts the task into a container does not hide it. Such a task's checkpoints are marked by
//! `sgpu-ckpt serve`, outside of the container.
#![cfg(slurm_public)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod end_time;
mod fds;
mod flag;
mod launch;
mod marks;
mod settings;
mod task;

use std::ffi::{c_char, c_int};

use sgpu_config::request;
use slurm_plugin::log;
use slurm_plugin::spank::{Argument, Context, Options, Spank, Spec, context};

static OPTIONS: Options<1> = Options::new([Spec {
    name: c"checkpoint-signal",
    value: Some(c"SIG[@sec][,forward=SIG2][,file][,scope=leader|tree]"),
    usage: c"signal that tells the program to write a checkpoint, sec seconds [60] before the job ends and when \
             it is preempted; off: none",
    argument: Argument::Required,
    check: |value| request::parse(value.unwrap_or_default()).map(drop),
}]);

slurm_plugin::spank_plugin! {
    name: "sgpu_ckpt",
    /// Registers the option, and reads the configuration in slurmstepd.
    slurm_spank_init => |spank, arguments| init(&spank, &arguments),
    /// Asks for the job's end where the task is not told.
    slurm_spank_user_init => |spank, _arguments| {
        task::before_all(&spank);
        0
    },
    /// Opens the relay, as root and outside of any container.
    slurm_spank_task_init_privileged => |spank, _arguments| {
        task::as_root(&spank);
        0
    },
    /// Puts the relay in front of the task.
    slurm_spank_task_init => |spank, _arguments| {
        task::start(&spank);
        0
    },
}

unsafe extern "C" fn given(number: c_int, value: *const c_char, _remote: c_int) -> c_int {
    // SAFETY: Slurm's arguments.
    unsafe { OPTIONS.take(number, value) }
}

fn init(spank: &Spank<'_>, arguments: &[String]) -> c_int {
    if !matches!(
        context(),
        Context::Local | Context::Allocator | Context::Remote
    ) {
        return 0;
    }
    if let Err((name, error)) = OPTIONS.register(spank, Some(given)) {
        log::error(format_args!("--{}: {error}", name.to_string_lossy()));
    }
    if context() == Context::Remote {
        settings::read(spank, arguments);
    }
    0
}
