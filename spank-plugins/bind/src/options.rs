//! `--gpu-numa-bind` and `--gpu-numa-mem`.

use std::ffi::{c_char, c_int};

use sgpu_config::MemoryPolicy;
use slurm_plugin::log;
use slurm_plugin::spank::{Argument, Options, Spank, Spec};
use spank_core::bind::settings::BindOption;

const BIND: usize = 0;
const MEMORY: usize = 1;

static OPTIONS: Options<2> = Options::new([
    Spec {
        name: c"gpu-numa-bind",
        value: Some(c"closest|node|socket|off[,verbose]"),
        usage: c"run each task on the CPUs nearest to its GPUs; verbose tells them [without a value: the site's mode, or closest]",
        argument: Argument::Optional,
        check: |value| parse(value.unwrap_or_default()).map(|_: BindOption| ()),
    },
    Spec {
        name: c"gpu-numa-mem",
        value: Some(c"local|preferred|bind|off"),
        usage: c"take each task's memory from the NUMA nodes of its GPUs, and run it there too",
        argument: Argument::Required,
        check: |value| parse(value.unwrap_or_default()).map(|_: MemoryPolicy| ()),
    },
]);

fn parse<T: std::str::FromStr<Err = String>>(value: &str) -> Result<T, String> {
    value.parse()
}

extern "C" fn take(number: c_int, value: *const c_char, _remote: c_int) -> c_int {
    // SAFETY: the value that Slurm hands to the callback.
    unsafe { OPTIONS.take(number, value) }
}

/// Adds the options to the command that the plugin is in.
pub(crate) fn register(spank: &Spank<'_>) {
    log::set_prefix("spank_sgpu_bind");
    if let Err((name, error)) = OPTIONS.register(spank, Some(take)) {
        log::error(format_args!("option --{}: {error}", name.to_string_lossy()));
    }
}

/// The user's `--gpu-numa-bind`.
pub(crate) fn bind() -> Option<BindOption> {
    OPTIONS.given(BIND)?.parse().ok()
}

/// The user's `--gpu-numa-mem`.
pub(crate) fn memory() -> Option<MemoryPolicy> {
    OPTIONS.given(MEMORY)?.parse().ok()
}
