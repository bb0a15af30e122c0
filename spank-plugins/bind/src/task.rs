//! A task that is about to start.

use std::io::Write as _;

use slurm_plugin::log;
use slurm_plugin::spank::{Overwrite, Spank};
use spank_core::bind::{self, Aside, Bound, Task, TaskVariables, network_variables};

use crate::apply;
use crate::step::{self, Step};

/// Where a task finds what was done.
const REPORT: &str = "SGPU_BIND";

/// Binds the task, or leaves it as it is, and says so.
pub(crate) fn start(spank: &Spank<'_>) {
    let Some(step) = step::step() else {
        // A report that came with the user's environment is another step's.
        if spank.getenv(REPORT).is_some()
            && let Err(error) = spank.unsetenv(REPORT)
        {
            log::debug(format_args!("{REPORT}: {error}"));
        }
        return;
    };
    let done = gather(spank, step).and_then(|task| {
        let bound = bind::decide(&step.host, &step.settings, &task)?;
        let report = apply(&bound)?;
        Ok((bound, report))
    });
    let (report, tell) = match &done {
        Ok((_, report)) => (report.clone(), step.settings.verbose),
        Err(aside) => {
            let waits = step.settings.asked && !aside.quiet;
            (aside.to_string(), step.settings.verbose || waits)
        }
    };
    set(spank, REPORT, &report, Overwrite::Replace);
    if let Ok((bound, _)) = &done {
        for (name, value) in network_variables(&bound.network) {
            let overwrite = if name.starts_with("SGPU_") {
                Overwrite::Replace
            } else {
                Overwrite::Keep
            };
            set(spank, name, &value, overwrite);
        }
    }
    if tell {
        let name = spank.getenv("SLURM_PROCID").unwrap_or_default();
        // A task that has closed its standard error hears nothing.
        let _ = writeln!(std::io::stderr(), "spank_sgpu_bind: task {name}: {report}");
    }
}

/// What is known of the task.
fn gather(spank: &Spank<'_>, step: &Step) -> Result<Task, Aside> {
    let unknown = |what: &str, why: &dyn std::fmt::Display| Aside {
        why: format!("{what}: {why}"),
        quiet: false,
    };
    Ok(Task {
        local_id: spank
            .task_id()
            .map_err(|error| unknown("the task's number", &error))?,
        local_tasks: spank
            .local_task_count()
            .map_err(|error| unknown("the number of tasks", &error))?,
        affinity: gpu::affinity::of_this_process()
            .map_err(|error| unknown("sched_getaffinity", &error))?,
        denied: denied(step),
        step: step.variables.clone(),
        own: TaskVariables {
            gpus: spank.getenv("SLURM_STEP_GPUS"),
            cuda: spank.getenv("CUDA_VISIBLE_DEVICES"),
            tres_bind: spank.getenv("SLURMD_TRES_BIND"),
            cpu_bind_type: spank.getenv("SLURM_CPU_BIND_TYPE"),
            cpu_bind_list: spank.getenv("SLURM_CPU_BIND_LIST"),
        },
    })
}

/// The GPUs of which the control group keeps a device file from the task. The files are the node's: a
/// container may have none, or others by these names.
fn denied(step: &Step) -> Vec<u32> {
    let kept = step
        .host
        .map
        .entries
        .iter()
        .filter(|gpu| gpu.files.iter().any(|file| step.files.is_denied(file)));
    kept.map(|gpu| gpu.index).collect()
}

/// Does it, and gives the report of what the kernel made of it.
fn apply(bound: &Bound) -> Result<String, Aside> {
    let failed = |what: &str, error: std::io::Error| Aside {
        why: format!("{what}: {error}"),
        quiet: false,
    };
    apply::set_affinity(&bound.cpus).map_err(|error| failed("sched_setaffinity", error))?;
    let cpus =
        gpu::affinity::of_this_process().map_err(|error| failed("sched_getaffinity", error))?;
    // In a container without CAP_SYS_NICE, or with a kernel without NUMA, the CPUs are all there is.
    let memory = apply::set_memory(bound.memory, &bound.nodes);
    if let Err(error) = &memory {
        log::debug(format_args!("set_mempolicy: {error}"));
    }
    Ok(bound.report(&cpus, memory.is_ok()))
}

fn set(spank: &Spank<'_>, name: &str, value: &str, overwrite: Overwrite) {
    if let Err(error) = spank.setenv(name, value, overwrite) {
        log::error(format_args!("{name}: {error}"));
    }
}
