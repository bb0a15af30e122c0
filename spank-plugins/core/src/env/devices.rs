//! The GPUs that a task sees. Slurm says which; nothing here changes it.

use super::Facts;
use super::ranks::Ranks;

/// Number of GPUs that the task sees; `None` when there are none, or Slurm does not say (22.05 with
/// `--gpu-bind=none`).
pub(super) fn visible(facts: &Facts<'_>) -> Option<u32> {
    let list = [
        "CUDA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "SLURM_STEP_GPUS",
    ]
    .into_iter()
    .find_map(|name| facts.var(name))?;
    let gpus = list
        .split(',')
        .map(str::trim)
        .filter(|gpu| !matches!(*gpu, "" | "-1" | "NoDevFiles"))
        .count();
    u32::try_from(gpus).ok().filter(|gpus| *gpus > 0)
}

/// How Slurm has divided the node's GPUs among the tasks; `None` when each task sees all.
fn binding(facts: &Facts<'_>) -> Option<String> {
    facts
        .var("SLURMD_TRES_BIND")
        .filter(|bind| bind.contains("gpu") && !bind.contains("none"))
}

/// The GPUs that a JAX process takes, of those that it sees: all that Slurm has bound to it; else by its
/// place among the node's tasks one of them, or an even share where there are fewer tasks than GPUs.
pub(super) fn jax_local_ids(facts: &Facts<'_>, ranks: &Ranks) -> Option<String> {
    let gpus = visible(facts)?;
    let (task, tasks) = (ranks.local_rank, ranks.local_world_size.max(1));
    let (first, end) = if binding(facts).is_some() || tasks == 1 {
        (0, gpus)
    } else if tasks >= gpus {
        let gpu = task.checked_rem(gpus)?;
        (gpu, gpu.saturating_add(1))
    } else {
        let share = |task: u32| task.saturating_mul(gpus).checked_div(tasks);
        (share(task)?, share(task.saturating_add(1))?)
    };
    let ids: Vec<String> = (first..end).map(|gpu| gpu.to_string()).collect();
    Some(ids.join(","))
}

/// What the user is told when each task sees a GPU of its own alone: GPUs that are hidden from each other
/// talk through the host's memory.
pub(super) fn hidden_peers(facts: &Facts<'_>, ranks: &Ranks) -> Option<String> {
    if ranks.local_world_size < 2 {
        return None;
    }
    let bind = binding(facts)?;
    if !["per_task", "single"].iter().any(|how| bind.contains(how)) {
        return None;
    }
    let cure = match facts.slurm {
        // Before 23.02 a task with --gpu-bind=none is not told its GPUs.
        (..23, _) => "--gpus-per-node in the place of --gpus-per-task",
        release if release < (24, 5) => "--gpu-bind=none",
        _ => "--gres-flags=allow-task-sharing or --gpu-bind=none",
    };
    Some(format!(
        "each task sees its own GPUs alone, so that NCCL may not use NVLink between them, and LOCAL_RANK is \
         no index into them; {cure} lets tasks see each other's"
    ))
}
