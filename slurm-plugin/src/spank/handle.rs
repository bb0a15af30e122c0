//! What a hook may ask Slurm for.

use std::ffi::{CString, c_char, c_int};
use std::marker::PhantomData;

use slurm_headers::public::{self, spank_context, spank_item, spank_t};

/// Which program a plugin is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Context {
    /// srun.
    Local,
    /// slurmstepd.
    Remote,
    /// sbatch or salloc.
    Allocator,
    /// slurmd.
    Slurmd,
    /// A prolog or epilog.
    JobScript,
    /// Slurm does not say.
    Unknown,
}

/// Which program this is.
#[must_use]
pub fn context() -> Context {
    // SAFETY: takes no argument.
    match unsafe { public::spank_context() } {
        spank_context::S_CTX_LOCAL => Context::Local,
        spank_context::S_CTX_REMOTE => Context::Remote,
        spank_context::S_CTX_ALLOCATOR => Context::Allocator,
        spank_context::S_CTX_SLURMD => Context::Slurmd,
        spank_context::S_CTX_JOB_SCRIPT => Context::JobScript,
        _ => Context::Unknown,
    }
}

/// A number of Slurm's that is no success (`ESPANK_*`, `slurm/slurm_errno.h`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SpankError(pub u32);

impl std::fmt::Display for SpankError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SPANK error {}", self.0)
    }
}

impl std::error::Error for SpankError {}

/// What becomes of a variable that is set already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Overwrite {
    /// It stays as it is.
    Keep,
    /// It gets the new value.
    Replace,
}

/// Slurm's handle, for the time of a hook.
#[derive(Debug)]
pub struct Spank<'hook> {
    raw: spank_t,
    hook: PhantomData<&'hook ()>,
}

/// The longest value of a variable that is read; longer ones are taken as not set.
const LONGEST_VALUE_BYTES: usize = 1 << 20;
const FIRST_VALUE_BYTES: usize = 256;

impl Spank<'_> {
    /// Takes the handle that Slurm hands to a hook.
    ///
    /// # Safety
    /// `raw` is what Slurm handed to the running hook, NULL or not.
    #[must_use]
    pub unsafe fn new(raw: spank_t) -> Self {
        Self {
            raw,
            hook: PhantomData,
        }
    }

    /// The handle, which stays Slurm's.
    pub(crate) fn raw(&self) -> spank_t {
        self.raw
    }

    /// The job's number.
    ///
    /// # Errors
    /// Slurm's, as for all items: not in this context, or no such thing.
    pub fn job_id(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_JOB_ID)
    }

    /// The step's number; from 0xfffffff0 on those of Slurm's special steps.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn step_id(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_JOB_STEPID)
    }

    /// The node's place among the step's.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn node_id(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_JOB_NODEID)
    }

    /// Number of the step's tasks on this node.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn local_task_count(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_JOB_LOCAL_TASK_COUNT)
    }

    /// Number of all of the step's tasks.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn total_task_count(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_JOB_TOTAL_TASK_COUNT)
    }

    /// How often the job was requeued.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn restart_count(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_SLURM_RESTART_COUNT)
    }

    /// The task's number on this node, in the hooks of a task.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn task_id(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_TASK_ID)
    }

    /// The task's number among all of the step's, in the hooks of a task; of a heterogeneous step's, among its
    /// component's.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn global_task_id(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_TASK_GLOBAL_ID)
    }

    /// Who runs the job.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn user(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_JOB_UID)
    }

    /// The job's group.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn group(&self) -> Result<u32, SpankError> {
        self.number(spank_item::S_JOB_GID)
    }

    /// The job's further groups.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn further_groups(&self) -> Result<Vec<u32>, SpankError> {
        let (mut groups, mut count) = (std::ptr::null_mut::<u32>(), 0 as c_int);
        // SAFETY: the running hook's handle; the item stores an array of gid_t, 32 bits each, and its length.
        check(unsafe {
            public::spank_get_item(
                self.raw,
                spank_item::S_JOB_SUPPLEMENTARY_GIDS,
                &raw mut groups,
                &raw mut count,
            )
        })?;
        let count = usize::try_from(count).unwrap_or(0);
        if groups.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: Slurm's array of that length, live during the hook.
        Ok(unsafe { std::slice::from_raw_parts(groups, count) }.to_vec())
    }

    /// A number of 32 bits: all items above are that (`slurm/spank.h`, `spank_item`).
    fn number(&self, item: spank_item::Type) -> Result<u32, SpankError> {
        let mut number: u32 = 0;
        // SAFETY: the running hook's handle; each item asked for stores 32 bits.
        check(unsafe { public::spank_get_item(self.raw, item, &raw mut number) })?;
        Ok(number)
    }

    /// The command that the task runs, with its arguments.
    ///
    /// # Errors
    /// As [`job_id`](Self::job_id).
    pub fn argv(&self) -> Result<Vec<String>, SpankError> {
        let (mut count, mut words) = (0 as c_int, std::ptr::null_mut::<*mut c_char>());
        // SAFETY: the running hook's handle; the item stores a count and an array of it.
        check(unsafe {
            public::spank_get_item(
                self.raw,
                spank_item::S_JOB_ARGV,
                &raw mut count,
                &raw mut words,
            )
        })?;
        // SAFETY: Slurm's array, live during the hook.
        Ok(unsafe { crate::cstr::words(count, words) })
    }

    /// A variable of the task's environment; `None` when it is not set. What is not UTF-8 is replaced.
    #[must_use]
    pub fn getenv(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        let mut room = FIRST_VALUE_BYTES;
        while room <= LONGEST_VALUE_BYTES {
            let mut value = vec![0_u8; room];
            let length = c_int::try_from(room).ok()?;
            // SAFETY: the running hook's handle; Slurm writes at most `length` bytes, NUL among them.
            let code = unsafe {
                public::spank_getenv(self.raw, name.as_ptr(), value.as_mut_ptr().cast(), length)
            };
            match code {
                public::ESPANK_SUCCESS => {
                    let end = value.iter().position(|byte| *byte == 0)?;
                    value.truncate(end);
                    return Some(String::from_utf8_lossy(&value).into_owned());
                }
                public::slurm_err_t::ESPANK_NOSPACE => room = room.saturating_mul(4),
                _ => return None,
            }
        }
        None
    }

    /// Sets a variable of the task's environment; `false` when it was set and is kept.
    ///
    /// # Errors
    /// Slurm's; a name or value with a NUL in it is Slurm's "bad argument".
    pub fn setenv(
        &self,
        name: &str,
        value: &str,
        overwrite: Overwrite,
    ) -> Result<bool, SpankError> {
        let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) else {
            return Err(SpankError(public::slurm_err_t::ESPANK_BAD_ARG));
        };
        let replace = c_int::from(overwrite == Overwrite::Replace);
        // SAFETY: the running hook's handle; Slurm copies both strings.
        let code =
            unsafe { public::spank_setenv(self.raw, name.as_ptr(), value.as_ptr(), replace) };
        match code {
            public::slurm_err_t::ESPANK_ENV_EXISTS => Ok(false),
            code => check(code).map(|()| true),
        }
    }

    /// Removes a variable from the task's environment.
    ///
    /// # Errors
    /// Slurm's.
    pub fn unsetenv(&self, name: &str) -> Result<(), SpankError> {
        let Ok(name) = CString::new(name) else {
            return Err(SpankError(public::slurm_err_t::ESPANK_BAD_ARG));
        };
        // SAFETY: the running hook's handle; Slurm reads the string.
        check(unsafe { public::spank_unsetenv(self.raw, name.as_ptr()) })
    }

    /// Puts words in front of the command that the task runs; `None` when this Slurm cannot (before 23.11).
    /// In `slurm_spank_task_init` and `…_privileged` only.
    ///
    /// # Errors
    /// Slurm's.
    #[must_use]
    pub fn prepend_argv(&self, words: &[&str]) -> Option<Result<(), SpankError>> {
        type Prepend = unsafe extern "C" fn(spank_t, c_int, *const *const c_char) -> u32;
        // SAFETY: dlsym takes a NUL-terminated name; RTLD_DEFAULT searches the program and its libraries.
        let symbol =
            unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"spank_prepend_task_argv".as_ptr()) };
        if symbol.is_null() {
            return None;
        }
        // SAFETY: the function's type since it came (`slurm/spank.h` of 23.11).
        let prepend: Prepend = unsafe { std::mem::transmute(symbol) };
        let bad = || SpankError(public::slurm_err_t::ESPANK_BAD_ARG);
        let Ok(strings) = words
            .iter()
            .map(|word| CString::new(*word))
            .collect::<Result<Vec<_>, _>>()
        else {
            return Some(Err(bad()));
        };
        let pointers: Vec<*const c_char> = strings.iter().map(|word| word.as_ptr()).collect();
        let Ok(count) = c_int::try_from(pointers.len()) else {
            return Some(Err(bad()));
        };
        // SAFETY: the running hook's handle; Slurm copies the strings.
        Some(check(unsafe {
            prepend(self.raw, count, pointers.as_ptr())
        }))
    }
}

pub(super) fn check(code: u32) -> Result<(), SpankError> {
    if code == public::ESPANK_SUCCESS {
        Ok(())
    } else {
        Err(SpankError(code))
    }
}
