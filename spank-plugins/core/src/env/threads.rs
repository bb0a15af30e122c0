//! OMP_NUM_THREADS.

use super::Facts;

/// The task's cores: where several tasks share a node, each would else start a thread per CPU. `None` when
/// it is set, or not wanted.
///
/// A task that Slurm has bound has a mask of its own; otherwise all tasks have that of the step, which is
/// shared out.
pub(super) fn omp(facts: &Facts<'_>) -> Option<String> {
    let wanted = facts.config.omp_num_threads.unwrap_or(true) && facts.local_tasks > 1;
    let set = facts.var("OMP_NUM_THREADS").is_some() && !facts.options.force;
    if !wanted || set {
        return None;
    }
    let mask = facts.cpus?;
    let steps = facts.number("SLURM_CPUS_ON_NODE").unwrap_or(u32::MAX);
    let threads = if mask.cpus < steps {
        mask.cores
    } else {
        // Of the mask's CPUs the step has `steps`.
        let cores = u64::from(mask.cores).saturating_mul(steps.into());
        let each = cores
            .checked_div(mask.cpus.into())?
            .checked_div(facts.local_tasks.into())?;
        u32::try_from(each).ok()?
    };
    Some(threads.max(1).to_string())
}
