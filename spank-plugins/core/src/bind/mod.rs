//! Tasks beside their GPUs: which CPUs and memory nodes a task gets.
//!
//! [`decide`] is the whole of it: from what is known of the node ([`Host`]), what was asked ([`Settings`])
//! and what a task was given ([`Task`]) to the CPUs that it is bound to ([`Bound`]), or to the reason for
//! leaving it as it is ([`Aside`]).
//!
//! | module       | what it holds                                                        |
//! |--------------|----------------------------------------------------------------------|
//! | [`settings`] | the options, plugstack.conf's arguments, and which of them counts     |
//! | [`host`]     | the node's GPUs, the CPUs near them, its cores                        |
//! | [`driver`]   | the GPUs by the driver's word, where no map is published              |
//! | [`binding`]  | what the user and Slurm say of CPUs, in their variables               |
//! | [`gpus`]     | which GPUs are the task's                                            |
//! | [`share`]    | whole cores for tasks that want the same ones                         |

pub mod binding;
pub mod driver;
pub mod gpus;
pub mod host;
pub mod settings;
pub mod share;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tree;

use std::fmt;

use gpu::CpuSet;
use sgpu_config::{BindMode, MemoryPolicy};

pub use host::Host;
pub use settings::Settings;

/// A step's variables before Slurm made its tasks' own, as srun sent them and slurmstepd added to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepVariables {
    /// `SLURM_CPU_BIND_TYPE`, or the longer `SLURM_CPU_BIND` where that is not there: set here only when the
    /// user binds CPUs, while in a task it is also set when Slurm does.
    pub cpu_bind: Option<String>,
    /// `SLURM_MEM_BIND_TYPE`, or `SLURM_MEM_BIND`: the same of memory.
    pub mem_bind: Option<String>,
    /// `SLURM_STEP_GPUS`: all of the step's GPUs on this node.
    pub gpus: Option<String>,
}

/// A task's variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskVariables {
    /// `SLURM_STEP_GPUS`.
    pub gpus: Option<String>,
    /// `CUDA_VISIBLE_DEVICES`.
    pub cuda: Option<String>,
    /// `SLURMD_TRES_BIND`, there when GPUs are bound to tasks.
    pub tres_bind: Option<String>,
    /// `SLURM_CPU_BIND_TYPE`: how Slurm has bound the step's tasks to CPUs.
    pub cpu_bind_type: Option<String>,
    /// `SLURM_CPU_BIND_LIST`: to which.
    pub cpu_bind_list: Option<String>,
}

/// A task that is about to start.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// Its number among the step's tasks of this node.
    pub local_id: u32,
    /// How many those are.
    pub local_tasks: u32,
    /// The CPUs that it may use (`sched_getaffinity`).
    pub affinity: CpuSet,
    /// The GRES indices of GPUs whose device files the task's control group keeps from it.
    pub denied: Vec<u32>,
    /// The step's variables.
    pub step: StepVariables,
    /// Its own.
    pub own: TaskVariables,
}

/// What a task is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// By which rule.
    pub mode: BindMode,
    /// Its GPUs, by GRES index.
    pub gpus: Vec<u32>,
    /// Its CPUs, never none.
    pub cpus: CpuSet,
    /// What becomes of its memory.
    pub memory: MemoryPolicy,
    /// The NUMA nodes of its GPUs.
    pub nodes: CpuSet,
    /// The RDMA devices that are nearest to its GPUs, when that was asked for.
    pub network: Vec<String>,
}

/// Why a task stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// In words.
    pub why: String,
    /// Nothing that anybody waits to hear: the task has no GPU.
    pub quiet: bool,
}

impl Aside {
    fn because(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            quiet: false,
        }
    }
}

/// As `SGPU_BIND` has it.
impl fmt::Display for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "none: {}", self.why)
    }
}

impl Bound {
    /// What `SGPU_BIND` says: `closest gpus=0,1 cpus=0-15 mem=preferred:0`. `cpus` are those that the kernel
    /// has granted, `memory` whether it took the policy.
    #[must_use]
    pub fn report(&self, cpus: &CpuSet, memory: bool) -> String {
        let memory = match self.memory {
            _ if !memory => "refused".to_owned(),
            MemoryPolicy::Local | MemoryPolicy::Off => self.memory.to_string(),
            MemoryPolicy::Preferred | MemoryPolicy::Bind => {
                format!("{}:{}", self.memory, self.nodes)
            }
        };
        format!(
            "{} gpus={} cpus={cpus} mem={memory}",
            self.mode,
            list(&self.gpus)
        )
    }
}

/// The variables that name network devices: the first is ours, the others stay as the user has set them.
#[must_use]
pub fn network_variables(devices: &[String]) -> Vec<(&'static str, String)> {
    if devices.is_empty() {
        return Vec::new();
    }
    let ports: Vec<String> = devices.iter().map(|name| format!("{name}:1")).collect();
    vec![
        ("SGPU_NIC", devices.join(",")),
        // Without the sign NCCL takes each name for the beginning of names: mlx5_1 for mlx5_10 too.
        ("NCCL_IB_HCA", format!("={}", devices.join(","))),
        ("UCX_NET_DEVICES", ports.join(",")),
    ]
}

/// Numbers with commas between.
fn list(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    words.join(",")
}

/// What a task is bound to.
///
/// # Errors
/// The reason for leaving it as it is.
pub fn decide(host: &Host, settings: &Settings, task: &Task) -> Result<Bound, Aside> {
    if settings.respect_cpu_bind
        && let Some(what) = binding::by_user(&task.step)
    {
        return Err(Aside::because(format!("the user's {what}")));
    }
    let gpus = gpus::of_task(&host.map, task)?;
    let near = host.near(&gpus.own).map_err(Aside::because)?;
    let may = binding::allowed(task);
    let want = may.cpus().intersection(&near.cpus);
    let names = list(&gpus.own);
    if want.is_empty() {
        return Err(Aside::because(format!(
            "no CPU of {} is near GPU {names} (CPUs {})",
            may.cpus(),
            near.cpus
        )));
    }
    let cpus = match (&may, &gpus.others) {
        // Slurm has given the task CPUs of its own, and they are near: nothing is better.
        _ if gpus.bound
            && task.affinity != *may.cpus()
            && task.affinity.is_subset(&near.cpus)
            && !task.affinity.is_empty() =>
        {
            task.affinity.clone()
        }
        (binding::Allowed::ForAll(_), Some(all)) => {
            let wants: Vec<CpuSet> = all
                .iter()
                .map(|gpus| host.near(gpus).map(|near| near.cpus).unwrap_or_default())
                .map(|near| near.intersection(may.cpus()))
                .collect();
            share::part(&wants, &host.cores, task.local_id as usize)
        }
        _ => want.clone(),
    };
    Ok(Bound {
        mode: settings.mode,
        // A task that is not among those counted would get none.
        cpus: if cpus.is_empty() { want } else { cpus },
        memory: settings.memory,
        nodes: near.nodes,
        network: host.network(&gpus.own),
        gpus: gpus.own,
    })
}
