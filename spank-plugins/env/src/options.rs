//! The options on the command line.

use std::ffi::{c_char, c_int};

use slurm_plugin::log;
use slurm_plugin::spank::{self, Argument, Spank, Spec};
use spank_core::env::Options;

static OPTIONS: spank::Options<3> = spank::Options::new([
    Spec {
        name: c"dist-env",
        value: Some(c"profile"),
        usage: c"set the variables of distributed training in each task: auto, torch, torchrun, jax, elastic or off [without a value: auto]",
        argument: Argument::Optional,
        check: Options::check_profile,
    },
    Spec {
        name: c"dist-port",
        value: Some(c"port"),
        usage: c"port of rank 0 for --dist-env [otherwise by the job's and step's number]",
        argument: Argument::Required,
        check: Options::check_port,
    },
    Spec {
        name: c"dist-force",
        value: None,
        usage: c"let --dist-env replace variables that are set already",
        argument: Argument::None,
        check: |_| Ok(()),
    },
]);

/// Adds the options.
pub(crate) fn register(spank: &Spank<'_>) {
    if let Err((name, error)) = OPTIONS.register(spank, Some(take)) {
        log::error(format_args!("no --{}: {error}", name.to_string_lossy()));
    }
}

/// What was given.
pub(crate) fn given() -> Options {
    Options::given(
        OPTIONS.given(0).as_deref(),
        OPTIONS.given(1).as_deref(),
        OPTIONS.given(2).is_some(),
    )
}

unsafe extern "C" fn take(number: c_int, value: *const c_char, _remote: c_int) -> c_int {
    // SAFETY: Slurm's own arguments.
    unsafe { OPTIONS.take(number, value) }
}
