//! What is known before a step's tasks start. slurmstepd forks the tasks, so they have it too.

use std::path::Path;
use std::sync::OnceLock;

use gpu::index_map::{self, IndexMap};
use gpu::sysfs::Sysfs;
use sgpu_config::BindMode;
use slurm_plugin::log;
use slurm_plugin::node_files::NodeFiles;
use slurm_plugin::spank::{Context, Spank, context};
use spank_core::FIRST_SPECIAL_STEP;
use spank_core::bind::settings::Arguments;
use spank_core::bind::{Host, Settings, StepVariables, driver};

use crate::options;

/// A step that is to be bound.
pub(crate) struct Step {
    pub(crate) settings: Settings,
    pub(crate) host: Host,
    pub(crate) variables: StepVariables,
    pub(crate) files: NodeFiles,
}

static STEP: OnceLock<Step> = OnceLock::new();

/// The step; `None` when nothing is to be bound.
pub(crate) fn step() -> Option<&'static Step> {
    STEP.get()
}

/// Reads what there is to know, in slurmstepd.
pub(crate) fn prepare(spank: &Spank<'_>, words: &[String]) {
    if context() != Context::Remote {
        return;
    }
    if spank.step_id().is_ok_and(|step| step >= FIRST_SPECIAL_STEP) {
        return;
    }
    let arguments = Arguments::parse(words);
    spank_site::tell(&arguments.faults);
    let sections = spank_site::sections(spank, arguments.config.as_deref());
    let site = arguments.bind.over(sections.bind);
    let settings = Settings::new(&site, options::bind(), options::memory());
    if settings.mode == BindMode::Off {
        return;
    }
    let host = Host::read(map(), &Sysfs::default(), settings.mode, settings.network);
    let variables = StepVariables {
        // 22.05's SLURM_CPU_BIND says `corescores` for --cpu-bind=cores; the type is right.
        cpu_bind: spank
            .getenv("SLURM_CPU_BIND_TYPE")
            .or_else(|| spank.getenv("SLURM_CPU_BIND")),
        mem_bind: spank
            .getenv("SLURM_MEM_BIND_TYPE")
            .or_else(|| spank.getenv("SLURM_MEM_BIND")),
        gpus: spank.getenv("SLURM_STEP_GPUS"),
    };
    // A second call would be the plugin listed twice; what is known stays.
    let _ = STEP.set(Step {
        settings,
        host,
        variables,
        files: NodeFiles::hold(),
    });
}

/// The node's GPUs: the published map, or what the driver says.
fn map() -> IndexMap {
    IndexMap::read(Path::new(index_map::DEFAULT_PATH)).unwrap_or_else(|error| {
        log::debug(format_args!("{error}; GPUs go by their minor numbers"));
        driver::map(Path::new(driver::DEFAULT_PATH))
    })
}
