//! What the user and Slurm say of CPUs, in their variables (`setup_env` in Slurm's `src/common/env.c`, the
//! same from 22.05 to 26.05).
//!
//! In a task, `SLURM_CPU_BIND` does not tell who bound it: task/affinity turns a user's `--cpu-bind=cores`
//! and its own choice alike into `mask_cpu` with one mask for each task, and slurmstepd writes that over
//! what srun had set. In the step's variables, before there are tasks, it is srun's: there only when the
//! user asked.

use gpu::CpuSet;

use super::{StepVariables, Task};

/// Words of `SLURM_CPU_BIND` and `SLURM_MEM_BIND` that bind nothing.
const NO_BINDING: [&str; 8] = ["", "quiet", "verbose", "q", "v", "sort", "nosort", "prefer"];

/// The option with which the user binds, `--cpu-bind=map_cpu`, if he does.
pub fn by_user(step: &StepVariables) -> Option<String> {
    let kind = |value: &Option<String>| {
        let word = value
            .as_deref()?
            .split(',')
            .find(|word| !NO_BINDING.contains(word))?;
        Some(word.split(':').next().unwrap_or(word).to_owned())
    };
    let cpu = kind(&step.cpu_bind).map(|kind| format!("--cpu-bind={kind}"));
    cpu.or_else(|| kind(&step.mem_bind).map(|kind| format!("--mem-bind={kind}")))
}

/// The CPUs that a task may be bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Those of all of the step's tasks on this node.
    ForAll(CpuSet),
    /// Its own; what the others may use is not known.
    Own(CpuSet),
}

impl Allowed {
    /// The CPUs.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        match self {
            Self::ForAll(cpus) | Self::Own(cpus) => cpus,
        }
    }
}

/// The CPUs that a task may be bound to. Where Slurm itself has spread the step's tasks over the step's
/// CPUs, those of all of them: the spread knows nothing of GPUs, and a task whose GPU is on the other side
/// of the machine would find none of its own CPUs near. Where nobody has, the task's affinity, which is
/// then the step's. Where the user has, it is the task's alone.
#[must_use]
pub fn allowed(task: &Task) -> Allowed {
    let own = task.affinity.clone();
    let kind = task.own.cpu_bind_type.as_deref().unwrap_or_default();
    let spread = kind
        .split(',')
        .any(|word| word.trim_end_matches(':') == "mask_cpu");
    if by_user(&task.step).is_some() {
        return Allowed::Own(own);
    }
    if !spread {
        return match kind {
            "" | "none" => Allowed::ForAll(own),
            _ => Allowed::Own(own),
        };
    }
    match task.own.cpu_bind_list.as_deref().and_then(all_masks) {
        Some(all) if own.is_subset(&all) => Allowed::ForAll(all),
        _ => Allowed::Own(own),
    }
}

/// All CPUs of hexadecimal masks with commas between; `None` when one is no mask.
fn all_masks(list: &str) -> Option<CpuSet> {
    list.split(',')
        .try_fold(CpuSet::new(), |sum, mask| Some(sum.union(&one_mask(mask)?)))
}

/// `0x000000f0`: CPUs 4 to 7.
fn one_mask(mask: &str) -> Option<CpuSet> {
    let digits = mask.trim().strip_prefix("0x")?;
    if digits.is_empty() {
        return None;
    }
    let mut cpus = CpuSet::new();
    for (digit, place) in digits.chars().rev().zip(0_u32..) {
        let bits = digit.to_digit(16)?;
        for bit in (0..4_u32).filter(|bit| bits.wrapping_shr(*bit) & 1 == 1) {
            cpus.insert(place.saturating_mul(4).saturating_add(bit));
        }
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::super::TaskVariables;
    use super::*;

    fn step(cpu: Option<&str>, mem: Option<&str>) -> Option<String> {
        by_user(&StepVariables {
            cpu_bind: cpu.map(str::to_owned),
            mem_bind: mem.map(str::to_owned),
            gpus: None,
        })
    }

    #[test]
    fn what_a_user_binds() {
        for (value, option) in [
            ("quiet,map_cpu:0,1", Some("--cpu-bind=map_cpu")),
            ("verbose,mask_cpu:0x3,0xc", Some("--cpu-bind=mask_cpu")),
            ("quiet,cores", Some("--cpu-bind=cores")),
            ("quiet,none", Some("--cpu-bind=none")),
            ("cores,map_cpu:", Some("--cpu-bind=cores")),
            ("quiet", None),
            ("verbose", None),
            ("", None),
        ] {
            assert_eq!(step(Some(value), None).as_deref(), option, "{value}");
        }
        for (value, option) in [
            ("quiet,local", Some("--mem-bind=local")),
            ("quiet,prefer,map_mem:0,1", Some("--mem-bind=map_mem")),
            ("verbose,prefer", None),
            ("quiet", None),
        ] {
            assert_eq!(step(None, Some(value)).as_deref(), option, "{value}");
        }
        assert_eq!(step(None, None), None);
    }

    #[test]
    fn masks() {
        let cpus = |text: &str| all_masks(text).map(|cpus| cpus.to_string());
        assert_eq!(cpus("0x00000003,0x0000000c").as_deref(), Some("0-3"));
        assert_eq!(cpus("0xF0").as_deref(), Some("4-7"));
        assert_eq!(cpus("0x10000000000000000").as_deref(), Some("64"));
        assert_eq!(cpus("0x0").as_deref(), Some(""));
        for text in ["", "3", "0x", "0x3,", "0xg", "0x3 4"] {
            assert_eq!(cpus(text), None, "{text}");
        }
    }

    fn task(affinity: &str, kind: Option<&str>, list: &str, user: Option<&str>) -> Task {
        Task {
            affinity: affinity.parse().unwrap(),
            step: StepVariables {
                cpu_bind: user.map(str::to_owned),
                ..StepVariables::default()
            },
            own: TaskVariables {
                cpu_bind_type: kind.map(str::to_owned),
                cpu_bind_list: Some(list.to_owned()),
                ..TaskVariables::default()
            },
            ..Task::default()
        }
    }

    #[test]
    fn whose_cpus() {
        let all = |text: &str| Allowed::ForAll(text.parse().unwrap());
        let own = |text: &str| Allowed::Own(text.parse().unwrap());
        for (affinity, kind, masks, user, expect) in [
            // task/affinity's spread, and the list of a single mask for all.
            ("0-1", Some("mask_cpu:"), "0x3,0xc", None, all("0-3")),
            ("0-3", Some("mask_cpu:"), "0xf", None, all("0-3")),
            // No task/affinity.
            ("0-3", None, "", None, all("0-3")),
            ("0-3", Some("none"), "", None, all("0-3")),
            // The list cannot be read, or is not of this task's CPUs.
            ("0-1", Some("mask_cpu:"), "", None, own("0-1")),
            ("4-5", Some("mask_cpu:"), "0x3,0xc", None, own("4-5")),
            // The user's.
            (
                "0-1",
                Some("mask_cpu:"),
                "0x3,0xc",
                Some("quiet,cores"),
                own("0-1"),
            ),
            (
                "2",
                Some("map_cpu:"),
                "2,3",
                Some("quiet,map_cpu:2,3"),
                own("2"),
            ),
            ("0-3", Some("rank"), "", None, own("0-3")),
        ] {
            let found = allowed(&task(affinity, kind, masks, user));
            assert_eq!(found, expect, "{kind:?} {masks} {user:?}");
        }
    }
}
