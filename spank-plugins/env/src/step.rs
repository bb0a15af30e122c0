//! What holds for all tasks of a step on this node. It is read when slurmstepd loads the plugin: a task may
//! be in a container, which has no file of the site's.

use std::ffi::c_int;
use std::sync::OnceLock;

use sgpu_config::Env;
use slurm_plugin::node_files::NodeFiles;
use slurm_plugin::spank::{Context, Spank, context};
use spank_core::FIRST_SPECIAL_STEP;
use spank_core::env::port::Taken;
use spank_core::env::{Arguments, Exported};

use crate::{node, options};

/// What holds for all tasks of a step on this node.
pub(crate) struct Step {
    pub(crate) exported: Exported,
    pub(crate) config: Env,
    pub(crate) taken: Taken,
    pub(crate) interfaces: Vec<String>,
    pub(crate) hcas: Vec<String>,
    pub(crate) files: NodeFiles,
}

static STEP: OnceLock<Step> = OnceLock::new();

/// The step, in slurmstepd; `None` for Slurm's own steps.
pub(crate) fn get() -> Option<&'static Step> {
    STEP.get()
}

/// The hook.
pub(crate) fn init(spank: &Spank<'_>, arguments: &[String]) -> c_int {
    options::register(spank);
    if context() == Context::Remote && spank.step_id().is_ok_and(|step| step < FIRST_SPECIAL_STEP) {
        STEP.get_or_init(|| read(spank, arguments));
    }
    0
}

fn read(spank: &Spank<'_>, arguments: &[String]) -> Step {
    let arguments = Arguments::parse(arguments);
    spank_site::tell(&arguments.faults);
    let sections = spank_site::sections(spank, arguments.config.as_deref());
    Step {
        exported: Exported {
            rank: spank.getenv("RANK").is_some(),
            local_rank: spank.getenv("LOCAL_RANK").is_some(),
        },
        config: arguments.env.over(sections.env),
        taken: node::taken_ports(),
        interfaces: node::interfaces(),
        hcas: node::hcas(),
        files: NodeFiles::hold(),
    }
}
