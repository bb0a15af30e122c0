//! NVML's C functions, one file a topic.
//!
//! Every function is made by [`exports!`], so the checks around a call stand in one place,
//! [`entry`]. A body sees plain Rust values; raw pointers are touched only in [`out`].

mod affinity;
mod clocks;
mod ecc;
mod entry;
mod events;
mod fields;
mod handle;
mod identity;
mod links;
mod memory;
mod mig;
mod mig_profiles;
mod out;
mod pcie;
mod power;
mod processes;
mod settings;
mod system;
mod thermal;
mod unsupported;
mod usage;

/// Defines C functions. Each is `KIND [names] (context; arguments) => { body }`, the body giving
/// `Result<(), Status>`; KIND says what the context is:
/// `system` the board, `device` a whole GPU, `any` a whole GPU or a MIG device.
macro_rules! exports {
    ($($kind:ident [$($name:ident),+] $arguments:tt => $body:block)*) => {
        pub(super) const NAMES: &[&str] = &[$($(stringify!($name)),+),*];
        $($($crate::abi::export_one!($kind $name $arguments $body);)+)*
    };
}

macro_rules! export_one {
    (system $name:ident ($c:tt; $($argument:ident: $kind:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "NVML's name")]
        unsafe extern "C" fn $name($($argument: $kind),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::abi::entry::system(stringify!($name), |$c| $body)
        }
    };
    ($of:ident $name:ident ($c:tt; $($argument:ident: $kind:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "NVML's name")]
        unsafe extern "C" fn $name(
            device: $crate::abi::handle::Handle,
            $($argument: $kind),*
        ) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::abi::entry::$of(stringify!($name), device, |$c| $body)
        }
    };
}

use export_one;
use exports;

const NAMES: &[&[&str]] = &[
    affinity::NAMES,
    clocks::NAMES,
    ecc::NAMES,
    events::NAMES,
    fields::NAMES,
    identity::NAMES,
    links::NAMES,
    memory::NAMES,
    mig::NAMES,
    mig_profiles::NAMES,
    pcie::NAMES,
    power::NAMES,
    processes::NAMES,
    settings::NAMES,
    system::FREE,
    system::NAMES,
    thermal::NAMES,
    unsupported::NAMES,
    usage::NAMES,
];

/// Whether NVML has a call of this name, with or without its version.
pub(crate) fn knows(call: &str) -> bool {
    let mut all = NAMES.iter().copied().flatten();
    all.any(|&name| name == call || crate::scenario::unversioned(name) == call)
}
