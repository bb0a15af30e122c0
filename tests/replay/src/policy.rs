//! How slurmctld is set up.

/// A policy: a name, and lines of slurm.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What tables call it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    /// The lines.
    pub slurm_conf: String,
    /// More words of SchedulerParameters, with a comma before each.
    pub scheduler_parameters: &'static str,
}

/// Scheduling without backfill and without priorities.
const FIFO: &str = "SchedulerType=sched/builtin\nPriorityType=priority/basic\n";
const BACKFILL: &str = "SchedulerType=sched/backfill\n";
const BASIC: &str = "PriorityType=priority/basic\n";
/// Fair-share in GPU-seconds, the urgent first. The half-life is short, as the replays are.
const FAIR: &str = "PriorityType=priority/multifactor\nPriorityWeightQOS=100000\n\
    PriorityWeightFairshare=50000\nPriorityWeightAge=1000\n\
    PriorityDecayHalfLife=06:00:00\nPriorityCalcPeriod=1\n";
const PREEMPT: &str = "PreemptType=preempt/qos\nPreemptMode=REQUEUE\n";

/// The policies that Slurm has.
#[must_use]
pub fn stock() -> Vec<Policy> {
    let policy = |name, what, parts: &[&str], scheduler_parameters| Policy {
        name,
        what,
        slurm_conf: parts.concat(),
        scheduler_parameters,
    };
    let preempt = &[BACKFILL, FAIR, PREEMPT];
    vec![
        policy("fifo", "first come, first served", &[FIFO], ""),
        policy("backfill", "backfill", &[BACKFILL, BASIC], ""),
        policy("fair", "backfill and fair-share", &[BACKFILL, FAIR], ""),
        policy("preempt", "the same, and preemption by QOS", preempt, ""),
        policy(
            "preempt-reorder",
            "the same, with preempt_reorder_count=10",
            preempt,
            ",preempt_reorder_count=10",
        ),
        policy(
            "preempt-youngest",
            "the same, and preempt_youngest_first",
            preempt,
            ",preempt_reorder_count=10,preempt_youngest_first",
        ),
    ]
}
