//! slurmctld's tables, for the time of a hook.
//!
//! The scheduling hooks are called with slurmctld's job lock held for writing and its node lock at least for
//! reading: what is reached from here stays as it is until the hook ends, and no longer. No lock is taken.
//!
//! Slurmctld's own symbols are looked up rather than linked: where there are none, in a test or another program,
//! there is no [`Controller`], and the plugin does nothing.

mod conf;
mod gpus;
mod job;
mod node;

use std::ffi::CStr;
use std::ptr::NonNull;

use slurm_headers::internal::{self, bitstr_t, job_record_t};

use crate::bitstring::View;
use crate::canary::Canary;
use crate::compat::RawListTarget;
use crate::list;

pub use conf::Conf;
pub use gpus::{GpuAsk, Gpus, gpu_plugin_id};
pub use job::{Features, Job, Partition, Portion, Qos, Whole};
pub use node::{Node, nodes};

/// `find_job_record` of src/slurmctld/slurmctld.h.
type FindJob = unsafe extern "C" fn(u32) -> *mut job_record_t;
/// `acct_policy_is_job_preempt_exempt` of src/slurmctld/acct_policy.h.
type IsExempt = unsafe extern "C" fn(*mut job_record_t) -> bool;

/// slurmctld's variables and functions.
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    find_job: FindJob,
    is_exempt: IsExempt,
    available: NonNull<*mut bitstr_t>,
    completing: NonNull<*mut bitstr_t>,
    reservations: NonNull<*mut RawListTarget>,
    last_job_update: NonNull<libc::time_t>,
}

// SAFETY: addresses of a program's own variables and functions, which stay where they are; they are read in
// hooks alone.
unsafe impl Send for Controller {}

impl Controller {
    /// The symbols of this program; `None` where it is not slurmctld.
    #[must_use]
    pub fn find() -> Option<Self> {
        let find_job = symbol(c"find_job_record")?;
        let is_exempt = symbol(c"acct_policy_is_job_preempt_exempt")?;
        Some(Self {
            // SAFETY: slurmctld's function of this name and type.
            find_job: unsafe {
                std::mem::transmute::<*mut libc::c_void, FindJob>(find_job.as_ptr())
            },
            // SAFETY: as above.
            is_exempt: unsafe {
                std::mem::transmute::<*mut libc::c_void, IsExempt>(is_exempt.as_ptr())
            },
            available: symbol(c"avail_node_bitmap")?.cast(),
            completing: symbol(c"cg_node_bitmap")?.cast(),
            reservations: symbol(c"resv_list")?.cast(),
            last_job_update: symbol(c"last_job_update")?.cast(),
        })
    }

    /// A job by its number, by slurmctld's hash table.
    #[must_use]
    pub fn job(&self, id: u32) -> Option<Job<'_>> {
        // SAFETY: takes a number, and gives a record that lives while the job lock is held, or NULL.
        unsafe { Job::new((self.find_job)(id)) }
    }

    /// Whether a running job is too young to be pushed out: `PreemptExemptTime` of its QOS or of slurm.conf.
    #[must_use]
    pub fn is_exempt(&self, job: &Job<'_>) -> bool {
        // SAFETY: a live record. It takes assoc_mgr's lock for reading, as Slurm itself does on this very path
        // (`_is_job_preempt_exempt_internal` in src/slurmctld/preempt.c, later src/interfaces/preempt.c).
        unsafe { (self.is_exempt)(job.as_ptr()) }
    }

    /// Nodes that are up and take jobs.
    #[must_use]
    pub fn available(&self) -> Option<View<'_>> {
        // SAFETY: slurmctld's variable, which is NULL or a live bitmap over its nodes.
        unsafe { View::new(self.available.read()) }
    }

    /// Nodes on which a job is ending.
    #[must_use]
    pub fn completing(&self) -> Option<View<'_>> {
        // SAFETY: as above.
        unsafe { View::new(self.completing.read()) }
    }

    /// When slurmctld last changed anything of a job, or of a node, in Unix seconds.
    #[must_use]
    pub fn last_update(&self) -> (i64, i64) {
        // SAFETY: variables of slurmctld and of its library; they change under locks that the hook holds.
        unsafe { (self.last_job_update.read(), internal::last_node_update) }
    }

    /// The nodes of reservations that are in force at some time between two, but for those of `own`.
    #[must_use]
    pub fn reserved(&self, own: Option<u32>, from: i64, until: i64) -> Vec<View<'_>> {
        // SAFETY: NULL or slurmctld's list of reservations, which the hook's locks keep as it is.
        let all = unsafe { list::elements::<internal::slurmctld_resv_t>(self.reservations.read()) };
        all.filter_map(|reservation| {
            // SAFETY: a live element.
            let reservation = unsafe { reservation.as_ref() };
            let in_force = reservation.start_time < until && reservation.end_time > from;
            if !in_force || own == Some(reservation.resv_id) {
                return None;
            }
            // SAFETY: NULL or a live bitmap of the reservation's.
            unsafe { View::new(reservation.node_bitmap) }
        })
        .collect()
    }

    /// Whether the structs are where this plugin was built to find them: seen once on a job that Slurm handed in.
    #[must_use]
    pub fn is_sound(&self, job: *mut job_record_t) -> bool {
        static CANARY: Canary = Canary::new("job_record_t");
        let Some(record) = NonNull::new(job) else {
            return false;
        };
        // SAFETY: Slurm handed in a live record. Its first field is its magic number; the job's number is only
        // looked up.
        let (magic, found, details) = unsafe {
            let record = record.as_ref();
            let found = (self.find_job)(record.job_id);
            let details = record.details.as_ref().map(|details| details.magic);
            (record.magic, found, details)
        };
        CANARY.sound([
            ("magic", u64::from(internal::JOB_MAGIC), u64::from(magic)),
            ("job_id's record", address(job), address(found)),
            (
                "details.magic",
                u64::from(internal::DETAILS_MAGIC),
                details.map_or(0, u64::from),
            ),
        ])
    }
}

fn address(job: *mut job_record_t) -> u64 {
    u64::try_from(job.addr()).unwrap_or(u64::MAX)
}

/// A symbol of the program itself or its libraries.
fn symbol(name: &CStr) -> Option<NonNull<libc::c_void>> {
    // SAFETY: dlsym takes a NUL-terminated name; RTLD_DEFAULT searches the program and its libraries.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}
