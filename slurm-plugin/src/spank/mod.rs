//! SPANK: plugins that srun, sbatch and salloc load, and slurmstepd for each step (`slurm/spank.h`).
//!
//! Only the public headers are needed, and only what they have had since 22.05 is linked: what came later
//! is looked up when it is called.
//!
//! Each hook answers 0 whatever happens to it, but for a bad value of an option: up to 24.11 Slurm fails a
//! step on a negative answer, from 25.05 on any other than 0.

mod blocks;
mod handle;
mod options;
mod timed;

pub use blocks::large_blocks_are_mappings;
pub use handle::{Context, Overwrite, Spank, SpankError, context};
pub use options::{Argument, Options, Spec};
pub use slurm_headers::public::{SLURM_VERSION_NUMBER, spank_t};
pub use timed::timed;

/// Exports what Slurm looks up in a SPANK plugin: its identity, and the hooks that it uses. Only those: a
/// plugin with a prolog has slurmd run one for every job.
///
/// Each hook is `name(spank, arguments) { … }`, with the words behind the plugin in plugstack.conf as
/// `arguments`, and gives what Slurm is answered: 0, or -1 to refuse the user's command.
///
/// ```ignore
/// slurm_plugin::spank_plugin! {
///     name: "sgpu_env",
///     /// Registers the options.
///     slurm_spank_init => |spank, arguments| env::init(spank, arguments),
/// }
/// ```
#[macro_export]
macro_rules! spank_plugin {
    (
        name: $name:literal,
        $( $(#[$meta:meta])* $hook:ident => |$spank:ident, $arguments:ident| $body:expr ),* $(,)?
    ) => {
        $crate::plugin_identity! {
            name: $name,
            type: "spank",
            version: $crate::spank::SLURM_VERSION_NUMBER,
        }

        /// The version of the plugin's interface.
        #[unsafe(no_mangle)]
        pub static spank_plugin_version: u32 = 1;

        /// From 25.05 on: a job whose step this plugin cannot be loaded into fails; by default the node would
        /// be drained (ESPANK_JOB_FAILURE in `slurm/slurm_errno.h` of 25.05).
        #[unsafe(no_mangle)]
        pub static slurm_spank_init_failure_mode: u32 = 3012;

        $crate::hooks! {$(
            $(#[$meta])*
            fn $hook(
                handle: $crate::spank::spank_t,
                count: ::std::ffi::c_int,
                words: *mut *mut ::std::ffi::c_char,
            ) -> ::std::ffi::c_int, fallback 0 => {
                // Slurm's own functions do not all look.
                if handle.is_null() {
                    return 0;
                }
                $crate::log::set_prefix(::std::concat!("spank_", $name));
                // SAFETY: Slurm's arguments: the handle of this call, and the words of plugstack.conf.
                let ($spank, $arguments) = unsafe {
                    (
                        $crate::spank::Spank::new(handle),
                        $crate::cstr::words(count, words),
                    )
                };
                $crate::spank::timed(::std::stringify!($hook), || $body)
            }
        )*}
    };
}
