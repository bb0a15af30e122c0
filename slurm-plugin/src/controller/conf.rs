//! What slurm.conf says to the scheduling plugins.

use slurm_headers::internal::{self, slurm_conf_t};

use crate::cstr;

/// slurm.conf, as slurmctld has read it.
#[derive(Clone, Copy, Debug)]
pub struct Conf(*const slurm_conf_t);

// SAFETY: the address of the library's own variable, which is read in hooks alone.
unsafe impl Send for Conf {}

impl Conf {
    /// `slurm_conf` of Slurm's library.
    #[must_use]
    pub fn get() -> Self {
        Self(&raw const internal::slurm_conf)
    }

    fn field<T>(self, of: impl FnOnce(&slurm_conf_t) -> T) -> T {
        // SAFETY: a variable of the library (src/common/read_config.c), which no other thread changes while a
        // hook runs.
        of(unsafe { &*self.0 })
    }

    /// When it was read, in Unix seconds.
    #[must_use]
    pub fn last_update(self) -> i64 {
        self.field(|conf| conf.last_update)
    }

    /// `PreemptMode`, Slurm's bits.
    #[must_use]
    pub fn preempt_mode(self) -> u16 {
        self.field(|conf| conf.preempt_mode)
    }

    /// `KillWait` and `MessageTimeout`, in seconds.
    #[must_use]
    pub fn kill_and_message_seconds(self) -> (u32, u32) {
        self.field(|conf| (conf.kill_wait.into(), conf.msg_timeout.into()))
    }

    /// Whether memory is handed out: `SelectTypeParameters=…_Memory`.
    #[must_use]
    pub fn memory_is_handed_out(self) -> bool {
        self.field(|conf| u32::from(conf.select_type_param) & internal::CR_MEMORY != 0)
    }

    /// `SchedulerParameters` and, from 23.02 on, `PreemptParameters`, one after the other.
    #[must_use]
    pub fn preempt_words(self) -> String {
        let (scheduler, preempt) =
            self.field(|conf| (conf.sched_params, crate::compat::preempt_params(conf)));
        // SAFETY: NULL or a string of the configuration.
        let words = |text| unsafe { cstr::text(text) }.unwrap_or_default().into_owned();
        format!("{},{}", words(scheduler), words(preempt))
    }
}
