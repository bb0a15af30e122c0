//! A task's environment.

use std::ffi::c_int;
use std::path::Path;

use slurm_plugin::log;
use slurm_plugin::spank::{Overwrite, SLURM_VERSION_NUMBER, Spank, SpankError};
use spank_core::env::{Facts, Node, Plan, plan};

use crate::step::{self, Step};
use crate::{node, options};

/// What was set.
const PROFILE: &str = "SGPU_DIST_PROFILE";

/// The hook.
pub(crate) fn init(spank: &Spank<'_>) -> c_int {
    let Some(step) = step::get() else {
        return 0;
    };
    // The batch script's is not this step's.
    let _ = spank.unsetenv(PROFILE);
    match plan_of(spank, step) {
        Ok(plan) => apply(spank, &plan),
        Err(error) => log::error(format_args!(
            "Slurm does not say which task this is: {error}"
        )),
    }
    0
}

fn plan_of(spank: &Spank<'_>, step: &Step) -> Result<Plan, SpankError> {
    Ok(plan(&Facts {
        task: &|name| spank.getenv(name),
        exported: &step.exported,
        job_id: spank.job_id()?,
        step_id: spank.step_id()?,
        restart_count: spank.restart_count()?,
        local_tasks: spank.local_task_count()?,
        tasks: spank.total_task_count()?,
        cpus: node::own_cpus(&step.files),
        slurm: (
            SLURM_VERSION_NUMBER >> 16 & 0xff,
            SLURM_VERSION_NUMBER >> 8 & 0xff,
        ),
        options: &options::given(),
        config: &step.config,
        taken: step.taken,
        node: Node {
            interfaces: &step.interfaces,
            hcas: &step.hcas,
            has_file: &|path| Path::new(path).is_file(),
        },
    }))
}

fn apply(spank: &Spank<'_>, plan: &Plan) {
    let overwrite = if plan.replace {
        Overwrite::Replace
    } else {
        Overwrite::Keep
    };
    for (name, value) in &plan.set {
        if let Err(error) = spank.setenv(name, value, overwrite) {
            log::error(format_args!("{name} is not set: {error}"));
        }
    }
    for notice in &plan.notices {
        log::tell_user(notice);
    }
}
