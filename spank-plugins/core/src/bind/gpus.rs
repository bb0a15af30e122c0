//! Which GPUs are a task's.
//!
//! `SLURM_STEP_GPUS` has GRES indices of the node, the order of the published map. Not so where GPUs are
//! bound to tasks and devices are constrained (`ConstrainDevices`): there Slurm counts the bound GPU as the
//! first of the task (`gres_use_local_device_index`), looks the count up in the step's list, and each task
//! reads the step's first GPU. So a bound task's GPUs are those of the step's that its control group lets
//! it open. `CUDA_VISIBLE_DEVICES`, in the cases where it is all there is, counts the GPUs that can be
//! opened, or names them.

use gpu::index_map::{IndexEntry, IndexMap};

use super::{Aside, Task};

/// GPUs, by GRES index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    /// The task's.
    pub own: Vec<u32>,
    /// Those of each of the step's tasks on this node, when they are known.
    pub others: Option<Vec<Vec<u32>>>,
    /// Whether Slurm has bound GPUs to tasks.
    pub bound: bool,
}

/// Which GPUs are a task's.
///
/// # Errors
/// It has none, or they are not known.
pub fn of_task(map: &IndexMap, task: &Task) -> Result<Gpus, Aside> {
    let step = step_gpus(map, task)?;
    match task.own.tres_bind.as_deref().and_then(gpu_binding) {
        Some(kind) => {
            let own = bound(map, task, step)?;
            Ok(Gpus {
                others: others_of_bound(task, kind, &own, &all_of_step(map, task)),
                own,
                bound: true,
            })
        }
        None => {
            let all = owners(&step, task.local_tasks);
            let own = all
                .get(task.local_id as usize)
                .cloned()
                .ok_or_else(|| Aside::because("its number is not among the step's tasks"))?;
            Ok(Gpus {
                own,
                others: Some(all),
                bound: false,
            })
        }
    }
}

/// What `SLURMD_TRES_BIND` says of GPUs: `gpu:closest` up to 23.02, `gres/gpu:closest` since; `None` when
/// they are not bound to tasks.
fn gpu_binding(text: &str) -> Option<&str> {
    // A list of several (`gres/gpu:closest+gres/nic:closest`) is parted by plus signs, masks by commas.
    let ours = text.split(['+', ';']).find_map(|part| {
        let part = part.strip_prefix("gres/").unwrap_or(part);
        part.strip_prefix("gpu:")
    })?;
    let kind = ours.strip_prefix("verbose,").unwrap_or(ours);
    (!kind.is_empty() && kind != "none" && kind != "verbose").then_some(kind)
}

/// The GPUs of a task that shares the step's with all the others.
fn step_gpus(map: &IndexMap, task: &Task) -> Result<Vec<u32>, Aside> {
    // 22.05 takes the variable from a task under --gpu-bind=none; the step has had it.
    let lists = [&task.own.gpus, &task.step.gpus];
    if let Some(list) = lists.into_iter().flatten().find(|list| !list.is_empty()) {
        return indices(map, list);
    }
    if let Some(cuda) = task.own.cuda.as_deref().filter(|cuda| !cuda.is_empty()) {
        return by_cuda(map, task, cuda);
    }
    let open = openable(map, task);
    if task.denied.is_empty() || open.is_empty() {
        return Err(Aside {
            why: "no GPUs".into(),
            quiet: true,
        });
    }
    Ok(open)
}

/// All GPUs of the step, bound or not; without its list, all of the node.
fn all_of_step(map: &IndexMap, task: &Task) -> Vec<u32> {
    let list = task.step.gpus.as_deref();
    list.and_then(|list| indices(map, list).ok())
        .unwrap_or_else(|| map.entries.iter().map(|gpu| gpu.index).collect())
}

/// A bound task's GPUs, see above. `shown` are those of its own variables.
fn bound(map: &IndexMap, task: &Task, shown: Vec<u32>) -> Result<Vec<u32>, Aside> {
    if task.denied.is_empty() {
        return Ok(shown);
    }
    let of_step = all_of_step(map, task);
    let open: Vec<u32> = of_step
        .iter()
        .copied()
        .filter(|gpu| !task.denied.contains(gpu))
        .collect();
    if open.is_empty() {
        return Err(Aside::because("none of the step's GPUs can be opened"));
    }
    if open.len() < of_step.len() || task.step.gpus.is_none() {
        return Ok(open);
    }
    // The task can open all of the step's (`--gres-flags=allow-task-sharing`): its list counts these.
    let counted: Option<Vec<u32>> =
        numbers(task.own.gpus.as_deref().unwrap_or_default()).and_then(|places| {
            places
                .iter()
                .map(|place| of_step.get(*place as usize).copied())
                .collect()
        });
    Ok(counted.filter(|gpus| !gpus.is_empty()).unwrap_or(of_step))
}

/// The GPUs of each task where `per_task:N` gives them out in order; `None` when this task's are not those
/// that the order would give it, or the binding is another.
fn others_of_bound(task: &Task, kind: &str, own: &[u32], of_step: &[u32]) -> Option<Vec<Vec<u32>>> {
    let each: usize = kind.strip_prefix("per_task:")?.parse().ok()?;
    let all: Vec<Vec<u32>> = of_step
        .chunks(each.max(1))
        .take(task.local_tasks as usize)
        .map(<[u32]>::to_vec)
        .collect();
    let mine = all.get(task.local_id as usize)?;
    (all.len() == task.local_tasks as usize && mine == own).then_some(all)
}

/// Who owns which GPU where all tasks see all: task i has GPU i when there are as many, i mod n when there
/// are more tasks, an even slice when there are fewer. That is what frameworks do with the local rank.
fn owners(gpus: &[u32], tasks: u32) -> Vec<Vec<u32>> {
    let (count, tasks) = (gpus.len(), tasks as usize);
    let start = |task: usize| task.saturating_mul(count).checked_div(tasks).unwrap_or(0);
    (0..tasks)
        .map(|task| {
            let slice = if tasks > count {
                let at = task.checked_rem(count).unwrap_or(0);
                gpus.get(at..at.saturating_add(1))
            } else {
                gpus.get(start(task)..start(task.saturating_add(1)))
            };
            slice.unwrap_or_default().to_vec()
        })
        .collect()
}

/// Numbers with commas between; `None` when one is none.
fn numbers(list: &str) -> Option<Vec<u32>> {
    list.split(',')
        .map(|word| word.trim().parse().ok())
        .collect()
}

/// GRES indices with commas between, all of them in the map.
fn indices(map: &IndexMap, list: &str) -> Result<Vec<u32>, Aside> {
    let found =
        numbers(list).ok_or_else(|| Aside::because(format!("SLURM_STEP_GPUS is {list:?}")))?;
    match found.iter().find(|index| map.get(**index).is_none()) {
        None => Ok(found),
        Some(index) => Err(Aside::because(format!(
            "GPU {index} is not among the node's known GPUs"
        ))),
    }
}

/// The GPUs whose device files the task can open, in the order of the map.
fn openable(map: &IndexMap, task: &Task) -> Vec<u32> {
    let all = map.entries.iter().map(|gpu| gpu.index);
    all.filter(|index| !task.denied.contains(index)).collect()
}

/// GPUs by `CUDA_VISIBLE_DEVICES`.
fn by_cuda(map: &IndexMap, task: &Task, list: &str) -> Result<Vec<u32>, Aside> {
    let open = openable(map, task);
    let mut found = Vec::new();
    for word in list.split(',').map(str::trim) {
        // CUDA reads no further than the first that is none; Slurm writes NoDevFiles for a step without GPUs.
        if word == "-1" || word == "NoDevFiles" {
            break;
        }
        let gpu = match word.parse::<usize>() {
            Ok(place) => open.get(place).copied(),
            Err(_) => by_uuid(map, word).map(|gpu| gpu.index),
        };
        found.push(gpu.ok_or_else(|| {
            Aside::because(format!(
                "CUDA_VISIBLE_DEVICES names {word}, which is not among the node's known GPUs"
            ))
        })?);
    }
    if found.is_empty() {
        return Err(Aside {
            why: "no GPUs".into(),
            quiet: true,
        });
    }
    Ok(found)
}

/// The GPU or MIG device of a UUID, which CUDA lets be cut short while it is one device's alone; a MIG
/// device also by its older name, `MIG-GPU-<uuid>/<gi>/<ci>`.
fn by_uuid<'map>(map: &'map IndexMap, name: &str) -> Option<&'map IndexEntry> {
    let older = name
        .strip_prefix("MIG-")
        .filter(|rest| rest.starts_with("GPU-"));
    if let Some(rest) = older {
        let mut parts = rest.split('/');
        let (parent, gi, ci) = (parts.next()?, parts.next()?, parts.next()?);
        let (gi, ci): (u32, u32) = (gi.parse().ok()?, ci.parse().ok()?);
        return map.entries.iter().find(|gpu| {
            gpu.mig.as_ref().is_some_and(|part| {
                part.parent_uuid == parent
                    && part.gpu_instance_id == gi
                    && part.compute_instance_id == ci
            })
        });
    }
    if !name.starts_with("GPU-") && !name.starts_with("MIG-") {
        return None;
    }
    let mut found = map
        .entries
        .iter()
        .filter(|gpu| gpu.uuid.as_ref().is_some_and(|uuid| uuid.starts_with(name)));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::super::{StepVariables, TaskVariables};
    use super::*;
    use gpu::index_map::MigPart;

    fn map(count: u32) -> IndexMap {
        let entry = |index| IndexEntry {
            index,
            files: vec![format!("/dev/nvidia{index}")],
            minor: Some(index),
            pci: None,
            uuid: Some(format!("GPU-{index}a-{index}")),
            mig: None,
        };
        IndexMap {
            entries: (0..count).map(entry).collect(),
        }
    }

    fn task(local_id: u32, local_tasks: u32, step: &str, own: &str) -> Task {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Task {
            local_id,
            local_tasks,
            step: StepVariables {
                gpus: some(step),
                ..StepVariables::default()
            },
            own: TaskVariables {
                gpus: some(own),
                ..TaskVariables::default()
            },
            ..Task::default()
        }
    }

    fn own(map: &IndexMap, task: &Task) -> Vec<u32> {
        of_task(map, task).unwrap().own
    }

    #[test]
    fn who_owns_what_all_see() {
        for (gpus, tasks, expect) in [
            (4, 4, vec![vec![0], vec![1], vec![2], vec![3]]),
            (2, 5, vec![vec![0], vec![1], vec![0], vec![1], vec![0]]),
            (8, 2, vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]),
            (4, 1, vec![vec![0, 1, 2, 3]]),
            (5, 2, vec![vec![0, 1], vec![2, 3, 4]]),
        ] {
            let all: Vec<u32> = (0..gpus).collect();
            assert_eq!(owners(&all, tasks), expect, "{gpus} {tasks}");
        }
    }

    #[test]
    fn indices_are_the_nodes_own() {
        let map = map(8);
        let gpus = of_task(&map, &task(1, 2, "2,5", "2,5")).unwrap();
        assert_eq!(gpus.own, [5]);
        assert_eq!(gpus.others, Some(vec![vec![2], vec![5]]));
        assert!(!gpus.bound);
        // 22.05 with --gpu-bind=none: the step alone has had the list.
        let mut none = task(0, 1, "2,5", "");
        none.own.tres_bind = Some("gpu:none".into());
        assert_eq!(own(&map, &none), [2, 5]);
        let unknown = of_task(&map, &task(0, 1, "8", "8")).unwrap_err();
        assert!(unknown.why.contains("GPU 8"), "{unknown}");
        assert!(!unknown.quiet);
        assert!(of_task(&map, &task(0, 1, "0-3", "0-3")).is_err());
    }

    #[test]
    fn what_is_bound() {
        for (text, kind) in [
            ("gpu:closest", Some("closest")),
            ("gres/gpu:per_task:1", Some("per_task:1")),
            ("gres/gpu:verbose,single:1", Some("single:1")),
            ("gres/gpu:mask_gpu:0x3,0xc", Some("mask_gpu:0x3,0xc")),
            ("gres/nic:closest+gres/gpu:closest", Some("closest")),
            ("gpu:none", None),
            ("gres/gpu:verbose,none", None),
            ("gres/nic:closest", None),
            ("", None),
        ] {
            assert_eq!(gpu_binding(text), kind, "{text}");
        }
    }

    #[test]
    fn a_bound_task_has_what_it_can_open() {
        let map = map(8);
        // --gpus-per-task=1 of GPUs 2, 3, 5, 7 with ConstrainDevices: every task reads "2".
        let mut third = task(2, 4, "2,3,5,7", "2");
        third.own.tres_bind = Some("gres/gpu:per_task:1".into());
        third.denied = vec![0, 1, 2, 3, 4, 6, 7];
        let gpus = of_task(&map, &third).unwrap();
        assert_eq!(gpus.own, [5]);
        assert!(gpus.bound);
        assert_eq!(gpus.others, Some(vec![vec![2], vec![3], vec![5], vec![7]]));
        // Given out in another order, nobody knows what the others have.
        third.denied = vec![0, 1, 2, 4, 5, 6, 7];
        let gpus = of_task(&map, &third).unwrap();
        assert_eq!((gpus.own, gpus.others), (vec![3], None));
        // Without the step's list.
        third.step.gpus = None;
        third.own.gpus = Some("0".into());
        assert_eq!(own(&map, &third), [3]);
        third.denied = (0..8).collect();
        assert!(of_task(&map, &third).unwrap_err().why.contains("opened"));
    }

    #[test]
    fn a_bound_task_without_constraint_reads_its_own() {
        let mut bound = task(1, 2, "2,5", "5");
        bound.own.tres_bind = Some("gres/gpu:closest".into());
        let gpus = of_task(&map(8), &bound).unwrap();
        assert_eq!((gpus.own, gpus.others), (vec![5], None));
    }

    #[test]
    fn tasks_that_share_count_the_steps() {
        let map = map(8);
        let mut shared = task(1, 2, "4,6", "1");
        shared.own.tres_bind = Some("gres/gpu:per_task:1".into());
        shared.denied = vec![0, 1, 2, 3, 5, 7];
        assert_eq!(own(&map, &shared), [6]);
        shared.own.gpus = Some("7".into());
        assert_eq!(own(&map, &shared), [4, 6]);
    }

    #[test]
    fn cuda_counts_what_can_be_opened_or_names_it() {
        let map = map(4);
        let cuda = |words: &str, denied: Vec<u32>| {
            let mut task = task(0, 1, "", "");
            task.own.cuda = Some(words.into());
            task.denied = denied;
            of_task(&map, &task).map(|gpus| gpus.own)
        };
        assert_eq!(cuda("0,1", vec![0, 2]), Ok(vec![1, 3]));
        assert_eq!(cuda("2", vec![]), Ok(vec![2]));
        assert_eq!(cuda("GPU-3a-3,GPU-1", vec![]), Ok(vec![3, 1]));
        assert_eq!(cuda("1,-1,2", vec![]), Ok(vec![1]));
        assert!(cuda("NoDevFiles", vec![]).unwrap_err().quiet);
        for words in ["GPU-", "GPU-9", "MIG-1", "7", "x"] {
            let error = cuda(words, vec![]).unwrap_err();
            assert!(error.why.contains(words), "{error}");
        }
    }

    #[test]
    fn the_openable_are_the_last_resort() {
        let map = map(4);
        let mut bare = task(0, 2, "", "");
        bare.denied = vec![1, 3];
        assert_eq!(own(&map, &bare), [0]);
        bare.denied = vec![0, 1, 2, 3];
        assert!(of_task(&map, &bare).unwrap_err().quiet);
        bare.denied = vec![];
        assert!(of_task(&map, &bare).unwrap_err().quiet);
    }

    #[test]
    fn mig_by_both_names() {
        let mut map = map(2);
        map.entries[1].uuid = Some("MIG-77".into());
        map.entries[1].mig = Some(MigPart {
            parent_uuid: "GPU-9c".into(),
            gpu_instance_id: 3,
            compute_instance_id: 0,
        });
        let index = |name| by_uuid(&map, name).map(|gpu| gpu.index);
        assert_eq!(index("MIG-77"), Some(1));
        assert_eq!(index("MIG-GPU-9c/3/0"), Some(1));
        assert_eq!(index("MIG-GPU-9c/4/0"), None);
        assert_eq!(index("MIG-GPU-9c"), None);
        assert_eq!(index("MIG-78"), None);
    }
}
