//! Options that a plugin adds to srun, sbatch and salloc.
//!
//! The user's command checks a value and hands it on; slurmstepd gets the same value for each step of the
//! job. What was given lies in an [`Options`] of the plugin.

use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, PoisonError};

use slurm_headers::public;

use super::handle::{Context, Spank, SpankError, check, context};
use crate::guard::Hook;
use crate::{cstr, log};

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Argument {
    /// It takes none.
    None,
    /// It must have one.
    Required,
    /// It may have one.
    Optional,
}

/// One option. Slurm needs all the texts (`_spank_option_register_call`).
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name, without dashes.
    pub name: &'static CStr,
    /// What the value is, in a word or two; `None` when it takes none.
    pub value: Option<&'static CStr>,
    /// What `--help` says.
    pub usage: &'static CStr,
    /// Whether it takes a value.
    pub argument: Argument,
    /// Whether a value is right; if not, what the user is told.
    pub check: fn(Option<&str>) -> Result<(), String>,
}

/// The options of a plugin, and what was given: `N` of them.
#[derive(Debug)]
pub struct Options<const N: usize> {
    specs: [Spec; N],
    /// `None`: not given; else the value, empty without one.
    given: Mutex<[Option<String>; N]>,
}

impl<const N: usize> Options<N> {
    /// The options, none given.
    #[must_use]
    pub const fn new(specs: [Spec; N]) -> Self {
        Self {
            specs,
            given: Mutex::new([const { None }; N]),
        }
    }

    /// Adds the options to the command that the plugin is in. In `slurm_spank_init` only. `callback` is
    /// the plugin's own and calls [`take`](Self::take).
    ///
    /// # Errors
    /// Slurm's; another plugin may have an option of the same name.
    pub fn register(
        &self,
        spank: &Spank<'_>,
        callback: public::spank_opt_cb_f,
    ) -> Result<(), (&'static CStr, SpankError)> {
        for (spec, number) in self.specs.iter().zip(0..) {
            let pointer = |text: &'static CStr| text.as_ptr().cast_mut();
            let mut option = public::spank_option {
                name: pointer(spec.name),
                arginfo: spec.value.map_or(std::ptr::null_mut(), pointer),
                usage: pointer(spec.usage),
                has_arg: match spec.argument {
                    Argument::None => 0,
                    Argument::Required => 1,
                    Argument::Optional => 2,
                },
                val: number,
                cb: callback,
            };
            // SAFETY: the running hook's handle; Slurm copies the option and its texts.
            check(unsafe { public::spank_option_register(spank.raw(), &raw mut option) })
                .map_err(|error| (spec.name, error))?;
        }
        Ok(())
    }

    /// The body of the plugin's callback: notes what was given. A wrong value is refused, with a word on why,
    /// in the user's command; in slurmstepd, which a user may have reached around the command, it is left out.
    ///
    /// # Safety
    /// `value` is what Slurm hands to the callback.
    pub unsafe fn take(&self, number: c_int, value: *const c_char) -> c_int {
        static HOOK: Hook = Hook::new("option callback");
        HOOK.run(0, || {
            let Some((spec, place)) = usize::try_from(number)
                .ok()
                .and_then(|place| Some((self.specs.get(place)?, place)))
            else {
                return 0;
            };
            // SAFETY: the caller's contract.
            let value = unsafe { cstr::text(value) };
            // 22.05 hands "(null)" on where an optional value was left out.
            let value = value
                .as_deref()
                .filter(|value| *value != "(null)" && !value.is_empty());
            if let Err(why) = (spec.check)(value) {
                log::error(format_args!("--{}: {why}", spec.name.to_string_lossy()));
                return match context() {
                    Context::Remote => 0,
                    _ => -1,
                };
            }
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(slot) = given.get_mut(place) {
                *slot = Some(value.unwrap_or_default().to_owned());
            }
            0
        })
    }

    /// The value of the option at a place of the list: `None` when it was not given, empty when it was
    /// without a value.
    #[must_use]
    pub fn given(&self, place: usize) -> Option<String> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.get(place)?.clone()
    }
}
