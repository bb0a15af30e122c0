//! What is known of a task.

use std::collections::BTreeSet;

use gpu::CpuSet;
use sgpu_config::Env;

use super::Options;
use super::port::Taken;

/// What is known of a task when it starts, after Slurm and the plugins before this one have made its
/// environment.
pub struct Facts<'a> {
    /// Looks a variable of the task's environment up.
    pub task: &'a dyn Fn(&str) -> Option<String>,
    /// What the step was started with.
    pub exported: &'a Exported,
    /// The job, or the component of a heterogeneous job.
    pub job_id: u32,
    /// The step.
    pub step_id: u32,
    /// How often the job was requeued; Slurm tells it to batch scripts only, and 0 to other steps.
    pub restart_count: u32,
    /// Number of the step's tasks on this node.
    pub local_tasks: u32,
    /// Number of the step's tasks, of a heterogeneous step those of this component.
    pub tasks: u32,
    /// Where the task may run; `None` when the kernel does not say.
    pub cpus: Option<TaskCpus>,
    /// Release of Slurm, year and month.
    pub slurm: (u32, u32),
    /// What the user asks for.
    pub options: &'a Options,
    /// What the site says.
    pub config: &'a Env,
    /// Ports that others take.
    pub taken: Taken,
    /// What this node has.
    pub node: Node<'a>,
}

/// What a step was started with, before anything was set for each task: the user's own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exported {
    /// Whether RANK was set.
    pub rank: bool,
    /// Whether LOCAL_RANK was set.
    pub local_rank: bool,
}

/// Where a task may run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskCpus {
    /// Number of CPUs in its mask.
    pub cpus: u32,
    /// Number of cores that they belong to.
    pub cores: u32,
}

impl TaskCpus {
    /// From the task's mask, with the CPUs that the kernel lists as a CPU's core.
    #[must_use]
    pub fn of(mask: &CpuSet, core: impl Fn(u32) -> Option<CpuSet>) -> Self {
        let alone = |cpu| CpuSet::from_range(cpu, cpu);
        let cores: BTreeSet<CpuSet> = mask
            .iter()
            .map(|cpu| core(cpu).unwrap_or_else(|| alone(cpu)))
            .collect();
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            cpus: count(mask.len()),
            cores: count(cores.len()),
        }
    }
}

/// What a node has, for variables that name it.
pub struct Node<'a> {
    /// Network interfaces, as in `/sys/class/net`.
    pub interfaces: &'a [String],
    /// InfiniBand devices, as in `/sys/class/infiniband`.
    pub hcas: &'a [String],
    /// Whether the task has a file.
    pub has_file: &'a dyn Fn(&str) -> bool,
}

impl Facts<'_> {
    /// A variable of the task's environment.
    pub(super) fn var(&self, name: &str) -> Option<String> {
        (self.task)(name)
    }

    /// A variable that is kept and says something: none under `--dist-force`.
    pub(super) fn own(&self, name: &str) -> Option<String> {
        if self.options.force {
            return None;
        }
        self.var(name).filter(|value| !value.trim().is_empty())
    }

    /// A variable that is a number.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.var(name)?.trim().parse().ok()
    }

    /// Number of all of the step's tasks: srun counts the components of a heterogeneous step together.
    pub(super) fn step_tasks(&self) -> u32 {
        self.number("SLURM_STEP_NUM_TASKS").unwrap_or(self.tasks)
    }

    /// Whether the step is one over several components of a heterogeneous job.
    pub(super) fn is_heterogeneous(&self) -> bool {
        self.step_tasks() > self.tasks
    }

    /// The number that all tasks of the step know their job by.
    pub(super) fn common_job_id(&self) -> u32 {
        if self.is_heterogeneous() {
            // slurmstepd gives each component's tasks the number of the first.
            self.number("SLURM_JOB_ID").unwrap_or(self.job_id)
        } else {
            self.job_id
        }
    }

    /// How often the job was requeued: a step has it from the batch script that started it.
    pub(super) fn restarts(&self) -> u32 {
        self.number("SLURM_RESTART_COUNT")
            .unwrap_or(self.restart_count)
    }

    /// Whether this is the one task that speaks for the step.
    pub(super) fn is_first_of_step(&self) -> bool {
        self.number("SLURM_PROCID") == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_counted_once() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        // CPU n and n + 4 are one core.
        let core = |cpu: u32| Some(set(&format!("{},{}", cpu % 4, cpu % 4 + 4)));
        for (mask, cpus, cores) in [("0-7", 8, 4), ("1,5", 2, 1), ("0-2", 3, 3), ("", 0, 0)] {
            assert_eq!(TaskCpus::of(&set(mask), core), TaskCpus { cpus, cores });
        }
        let silent = TaskCpus::of(&set("0-7"), |_| None);
        assert_eq!((silent.cpus, silent.cores), (8, 8));
    }
}
