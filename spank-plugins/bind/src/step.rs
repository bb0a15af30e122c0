//! What is known before a step's tasks start. slurmstepd forks the tasks, so they have it too.

use std::path::Path;
use std::sync::OnceLock;

use gpu::index_map::{self, IndexMap};
use gpu::sysfs::Sysfs;
use sgpu_config::{BindMode, Sections};
use slurm_plugin::log;
use slurm_plugin::node_files::NodeFiles;
use slurm_plugin::spank::{Context, Spank, context};
use slurm_text::hostlist;
use spank_core::bind::settings::Arguments;
use spank_core::bind::{Host, Settings, StepVariables, driver};

use crate::options;

/// The first of the numbers of Slurm's own steps: batch script, external and interactive step.
const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;

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
    let site = arguments
        .bind
        .clone()
        .over(sections(spank, &arguments).bind);
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

/// sgpu.toml, for this node.
fn sections(spank: &Spank<'_>, arguments: &Arguments) -> Sections {
    let path = arguments
        .config
        .as_deref()
        .unwrap_or(Path::new(sgpu_config::DEFAULT_PATH));
    sgpu_config::read(path, &node_name(spank)).unwrap_or_else(|error| {
        log::error(format_args!("{error}; no setting of it counts"));
        Sections::default()
    })
}

/// The node's name in Slurm, which need not be the host's: by its place in the step. `SLURMD_NODENAME` comes
/// with the tasks.
fn node_name(spank: &Spank<'_>) -> String {
    let by_place = || {
        let list = spank.getenv("SLURM_STEP_NODELIST")?;
        let place = usize::try_from(spank.node_id().ok()?).ok()?;
        hostlist::hosts(&list).ok()?.into_iter().nth(place)
    };
    by_place().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        host.trim().split('.').next().unwrap_or_default().to_owned()
    })
}

/// The node's GPUs: the published map, or what the driver says.
fn map() -> IndexMap {
    IndexMap::read(Path::new(index_map::DEFAULT_PATH)).unwrap_or_else(|error| {
        log::debug(format_args!("{error}; GPUs go by their minor numbers"));
        driver::map(Path::new(driver::DEFAULT_PATH))
    })
}
