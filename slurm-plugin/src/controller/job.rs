//! A job of slurmctld's.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ptr::NonNull;

use slurm_headers::internal::{self, job_record_t, job_states, part_record_t, slurmdb_qos_rec_t};

use super::gpus::{self, GpuAsk};
use crate::bitstring::View;
use crate::compat::JobDetails;
use crate::cstr;
use crate::list;

/// A job, for the time of a hook.
#[derive(Clone, Copy, Debug)]
pub struct Job<'hook>(NonNull<job_record_t>, PhantomData<&'hook ()>);

/// A QOS, for the time of a hook.
#[derive(Clone, Copy, Debug)]
pub struct Qos<'hook>(&'hook slurmdb_qos_rec_t);

/// A partition, for the time of a hook.
#[derive(Clone, Copy, Debug)]
pub struct Partition<'hook>(&'hook part_record_t);

/// How a job wants its nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Whole {
    /// It may share them.
    No,
    /// It wants them alone.
    Yes,
}

/// The nodes that a job's `--constraint` allows.
#[derive(Debug)]
pub enum Features<'hook> {
    /// All.
    Any,
    /// Those that are in all of these.
    All(Vec<View<'hook>>),
    /// Those that are in any of these.
    Either(Vec<View<'hook>>),
    /// More than one bitmap can say: counts, brackets, and different operators.
    Complex,
}

/// What a running job has of one node.
#[derive(Debug)]
pub struct Portion<'hook> {
    /// The node's place in slurmctld's table.
    pub node: usize,
    /// CPUs.
    pub cpus: u32,
    /// Memory, in MiB.
    pub memory: u64,
    /// GPUs: how many, Slurm's number of their type (0 where none is said), and their bits.
    pub gpus: Vec<(u32, u32, Option<View<'hook>>)>,
}

impl<'hook> Job<'hook> {
    /// # Safety
    /// `record` is NULL or a record of slurmctld's that lives as long as the hook.
    #[must_use]
    pub unsafe fn new(record: *mut job_record_t) -> Option<Self> {
        NonNull::new(record).map(|record| Self(record, PhantomData))
    }

    pub(super) fn as_ptr(&self) -> *mut job_record_t {
        self.0.as_ptr()
    }

    fn record(&self) -> &'hook job_record_t {
        // SAFETY: live by the contract of `new`.
        unsafe { &*self.0.as_ptr() }
    }

    fn details(&self) -> Option<&'hook JobDetails> {
        // SAFETY: NULL or the job's own.
        unsafe { self.record().details.as_ref() }
    }

    /// Slurm's number of it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.record().job_id
    }

    /// The number of the heterogeneous job that it is a component of, else its own.
    #[must_use]
    pub fn leader(&self) -> u32 {
        match self.record().het_job_id {
            0 => self.id(),
            leader => leader,
        }
    }

    /// The components of the heterogeneous job that this leads; none for any other job.
    pub fn components(&self) -> impl Iterator<Item = Job<'hook>> {
        // SAFETY: NULL or the leader's list of live records.
        unsafe { list::elements::<job_record_t>(self.record().het_job_list) }
            .map(|record| Job(record, PhantomData))
    }

    fn state(&self) -> u32 {
        self.record().job_state & internal::JOB_STATE_BASE
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state() == job_states::JOB_RUNNING
    }

    /// Whether it has nodes and is stopped.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.state() == job_states::JOB_SUSPENDED
    }

    /// Whether it was told to make way.
    #[must_use]
    pub fn was_preempted(&self) -> bool {
        self.record().preempt_time != 0
    }

    /// When it started or, while it waits, when backfill has it start; in Unix seconds, 0 when not known.
    #[must_use]
    pub fn start(&self) -> i64 {
        self.record().start_time
    }

    /// When its time limit ends, in Unix seconds; `None` without a limit.
    #[must_use]
    pub fn end(&self) -> Option<i64> {
        let record = self.record();
        (record.time_limit != internal::INFINITE).then_some(record.end_time)
    }

    /// Its time limit, in minutes: its own or the partition's; `None` without one.
    #[must_use]
    pub fn limit_minutes(&self) -> Option<u32> {
        let limit = match self.record().time_limit {
            internal::NO_VAL => self.partition()?.0.max_time,
            limit => limit,
        };
        (limit != internal::INFINITE).then_some(limit)
    }

    /// How often it was started again.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.record().restart_cnt.into()
    }

    /// Its priority.
    #[must_use]
    pub fn priority(&self) -> u32 {
        self.record().priority
    }

    /// How many nodes it has.
    #[must_use]
    pub fn node_count(&self) -> u32 {
        self.record().node_cnt
    }

    /// Its Comment.
    #[must_use]
    pub fn comment(&self) -> Option<Cow<'hook, str>> {
        // SAFETY: NULL or a string of the record.
        unsafe { cstr::text(self.record().comment) }
    }

    /// Its QOS.
    #[must_use]
    pub fn qos(&self) -> Option<Qos<'hook>> {
        // SAFETY: NULL or a record that lives while the job lock is held.
        unsafe { self.record().qos_ptr.as_ref() }.map(Qos)
    }

    /// The partition that it runs in or is considered for.
    #[must_use]
    pub fn partition(&self) -> Option<Partition<'hook>> {
        // SAFETY: as above.
        unsafe { self.record().part_ptr.as_ref() }.map(Partition)
    }

    /// The number of its reservation.
    #[must_use]
    pub fn reservation(&self) -> Option<u32> {
        // SAFETY: as above.
        unsafe { self.record().resv_ptr.as_ref() }.map(|reservation| reservation.resv_id)
    }

    /// The nodes of its reservation.
    #[must_use]
    pub fn reserved(&self) -> Option<View<'hook>> {
        // SAFETY: as above; the bitmap is NULL or the reservation's own.
        unsafe {
            let reservation = self.record().resv_ptr.as_ref()?;
            View::new(reservation.node_bitmap)
        }
    }

    /// The fewest and the most nodes that it asks for.
    #[must_use]
    pub fn nodes_asked(&self) -> (u32, u32) {
        self.details().map_or((1, 1), |details| {
            let least = details.min_nodes.max(1);
            (least, details.max_nodes.max(least))
        })
    }

    /// The nodes that it names.
    #[must_use]
    pub fn required(&self) -> Option<View<'hook>> {
        // SAFETY: NULL or the job's own.
        unsafe { View::new(self.details()?.req_node_bitmap) }
    }

    /// The nodes that it will not have.
    #[must_use]
    pub fn excluded(&self) -> Option<View<'hook>> {
        // SAFETY: NULL or the job's own.
        unsafe { View::new(self.details()?.exc_node_bitmap) }
    }

    /// Whether it wants its nodes alone.
    #[must_use]
    pub fn whole(&self) -> Whole {
        let wants = self.details().is_some_and(|details| {
            u32::from(details.whole_node) & internal::WHOLE_NODE_REQUIRED != 0
        });
        if wants { Whole::Yes } else { Whole::No }
    }

    /// CPUs of all nodes together, of each node, and of each task; 0 where it does not say.
    #[must_use]
    pub fn cpus_asked(&self) -> (u32, u32, u32) {
        self.details().map_or((1, 1, 1), |details| {
            let per_task = match details.cpus_per_task {
                count if u32::from(count) >= internal::NO_VAL16 => 0,
                count => count.into(),
            };
            (details.min_cpus, details.pn_min_cpus, per_task)
        })
    }

    /// Tasks of all nodes together, and of each node; 0 where it does not say.
    #[must_use]
    pub fn tasks_asked(&self) -> (u32, u32) {
        self.details().map_or((0, 0), |details| {
            let known = |count: u32| if count >= internal::NO_VAL { 0 } else { count };
            (known(details.num_tasks), details.ntasks_per_node.into())
        })
    }

    /// Memory of each node or, if the second is `true`, of each CPU, in MiB; 0 is all of a node's.
    #[must_use]
    pub fn memory_asked(&self) -> (u64, bool) {
        const PER_CPU: u64 = 1 << 63;
        self.details().map_or((0, false), |details| {
            let memory = details.pn_min_memory;
            (memory & !PER_CPU, memory & PER_CPU != 0)
        })
    }

    /// What it asks of GPUs, an item a type.
    #[must_use]
    pub fn gpus_asked(&self) -> Vec<GpuAsk> {
        // SAFETY: NULL or the job's own list.
        unsafe { gpus::asked(self.record().gres_list_req) }
    }

    /// The nodes that its `--constraint` allows.
    #[must_use]
    pub fn features(&self) -> Features<'hook> {
        let Some(details) = self.details() else {
            return Features::Any;
        };
        // SAFETY: NULL or the job's own list.
        let features = unsafe { list::elements::<internal::job_feature_t>(details.feature_list) };
        let mut views = Vec::new();
        let mut operators = [false; 2];
        for feature in features {
            // SAFETY: a live element; its bitmap is NULL or its own.
            let (feature, view) = unsafe {
                let feature = feature.as_ref();
                (feature, View::new(feature.node_bitmap_avail))
            };
            let is_plain = feature.count == 0 && feature.paren == 0;
            let operator = match u32::from(feature.op_code) {
                internal::FEATURE_OP_OR => Some(0),
                internal::FEATURE_OP_AND => Some(1),
                internal::FEATURE_OP_END => None,
                _ => return Features::Complex,
            };
            let (true, Some(view)) = (is_plain, view) else {
                return Features::Complex;
            };
            if let Some(seen) = operator.and_then(|operator: usize| operators.get_mut(operator)) {
                *seen = true;
            }
            views.push(view);
        }
        match operators {
            _ if views.is_empty() => Features::Any,
            [false, _] => Features::All(views),
            [true, false] => Features::Either(views),
            [true, true] => Features::Complex,
        }
    }

    /// What it has of each of its nodes, while it runs.
    pub fn portions(&self) -> impl Iterator<Item = Portion<'hook>> {
        let record = self.record();
        // SAFETY: NULL or the job's own; its bitmap has a bit a node of slurmctld's table and its arrays an
        // element for each that is set (src/common/job_resources.h).
        let resources = unsafe { record.job_resrcs.as_ref() };
        let nodes = resources
            // SAFETY: as above.
            .and_then(|resources| unsafe { View::new(resources.node_bitmap) })
            .map(|nodes| nodes.ones())
            .unwrap_or_default();
        let hosts = resources.map_or(0, |resources| {
            usize::try_from(resources.nhosts).unwrap_or(0)
        });
        nodes
            .into_iter()
            .take(hosts)
            .enumerate()
            .map(move |(place, node)| {
                let at = |count: Option<u16>| u32::from(count.unwrap_or(0));
                // SAFETY: arrays of `hosts` elements, or NULL.
                let (cpus, memory, gpus) = unsafe {
                    (
                        resources.and_then(|resources| element(resources.cpus, place)),
                        resources.and_then(|resources| element(resources.memory_allocated, place)),
                        gpus::allocated(record.gres_list_alloc, place).collect(),
                    )
                };
                Portion {
                    node,
                    cpus: at(cpus),
                    memory: memory.unwrap_or(0),
                    gpus,
                }
            })
    }
}

/// # Safety
/// `first` is NULL or an array with an element at `place`.
unsafe fn element<T: Copy>(first: *const T, place: usize) -> Option<T> {
    // SAFETY: by this function's contract.
    (!first.is_null()).then(|| unsafe { *first.add(place) })
}

impl<'hook> Qos<'hook> {
    /// Slurm's number of it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// `Priority`.
    #[must_use]
    pub fn priority(&self) -> u32 {
        self.0.priority
    }

    /// `GraceTime`, in seconds.
    #[must_use]
    pub fn grace_seconds(&self) -> u32 {
        self.0.grace_time
    }

    /// `PreemptMode`, Slurm's bits; 0: the cluster's.
    #[must_use]
    pub fn preempt_mode(&self) -> u16 {
        self.0.preempt_mode
    }

    /// The numbers of the QOS whose jobs it may push out.
    #[must_use]
    pub fn preempts(&self) -> Option<View<'hook>> {
        // SAFETY: NULL or a live bitmap of the QOS.
        unsafe { View::new(self.0.preempt_bitstr) }
    }
}

impl<'hook> Partition<'hook> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> Cow<'hook, str> {
        // SAFETY: NULL or a string of the record.
        unsafe { cstr::text(self.0.name) }.unwrap_or_default()
    }

    /// `PriorityTier`.
    #[must_use]
    pub fn tier(&self) -> u16 {
        self.0.priority_tier
    }

    /// `GraceTime`, in seconds.
    #[must_use]
    pub fn grace_seconds(&self) -> u32 {
        self.0.grace_time
    }

    /// `PreemptMode`, Slurm's bits; `None`: the cluster's.
    #[must_use]
    pub fn preempt_mode(&self) -> Option<u16> {
        let mode = self.0.preempt_mode;
        (u32::from(mode) != internal::NO_VAL16).then_some(mode)
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> Option<View<'hook>> {
        // SAFETY: NULL or a live bitmap of the partition's.
        unsafe { View::new(self.0.node_bitmap) }
    }
}
