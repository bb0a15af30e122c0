//! Whole cores for tasks that want the same ones.

use std::collections::BTreeMap;

use gpu::CpuSet;

/// Which CPUs share a core. A CPU of which nothing is known is a core by itself.
#[derive(Clone, Debug, Default)]
pub struct Cores {
    /// By the first CPU.
    by_first: BTreeMap<u32, CpuSet>,
}

impl Cores {
    /// From the cores that there are, each once or more.
    pub fn new(cores: impl IntoIterator<Item = CpuSet>) -> Self {
        Self {
            by_first: cores
                .into_iter()
                .filter_map(|core| Some((core.first()?, core)))
                .collect(),
        }
    }

    /// The parts of cores that make up a set, in the order of their first CPUs.
    fn of(&self, cpus: &CpuSet) -> Vec<CpuSet> {
        let mut left = cpus.clone();
        let mut parts = Vec::new();
        for core in self.by_first.values() {
            let part = core.intersection(&left);
            if !part.is_empty() {
                left = left.difference(&part);
                parts.push(part);
            }
        }
        parts.extend(left.iter().map(|cpu| CpuSet::from_range(cpu, cpu)));
        parts.sort_by_key(CpuSet::first);
        parts
    }
}

/// What the task at a place gets, when `wants` are the CPUs that each of the tasks wants: cores that several
/// want are dealt out among these in equal runs, so that no two have one in common. Only where there are
/// fewer cores than tasks do several have the same, each core as many tasks as the next, or one more.
#[must_use]
pub fn part(wants: &[CpuSet], cores: &Cores, task: usize) -> CpuSet {
    let all = wants
        .iter()
        .fold(CpuSet::new(), |sum, want| sum.union(want));
    // Cores by the tasks that want them.
    let mut classes: BTreeMap<Vec<usize>, Vec<CpuSet>> = BTreeMap::new();
    for core in cores.of(&all) {
        let who = wants.iter().enumerate();
        let who = who.filter(|(_, want)| !want.intersection(&core).is_empty());
        let who = who.map(|(task, _)| task).collect();
        classes.entry(who).or_default().push(core);
    }
    let mut got = CpuSet::new();
    let mut shared = CpuSet::new();
    for (who, cores) in &classes {
        let Some(place) = who.iter().position(|one| *one == task) else {
            continue;
        };
        let start = |place: usize| {
            let cut = place.saturating_mul(cores.len());
            cut.checked_div(who.len()).unwrap_or(0)
        };
        let mine = cores.get(start(place)..start(place.saturating_add(1)));
        for core in mine.unwrap_or_default() {
            got = got.union(core);
        }
        if let Some(core) = cores.get(start(place)) {
            shared = shared.union(core);
        }
    }
    let want = wants.get(task).cloned().unwrap_or_default();
    if got.is_empty() { shared } else { got }.intersection(&want)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    /// 8 cores; CPU n and n + 8 share one.
    fn eight() -> Cores {
        Cores::new((0..8).map(|cpu| [cpu, cpu + 8].into_iter().collect()))
    }

    fn parts(wants: &[&str], cores: &Cores) -> Vec<String> {
        let wants: Vec<CpuSet> = wants.iter().map(|want| set(want)).collect();
        (0..wants.len())
            .map(|task| part(&wants, cores, task).to_string())
            .collect()
    }

    #[test]
    fn equal_runs_of_whole_cores() {
        assert_eq!(
            parts(&["0-15", "0-15"], &eight()),
            ["0-3,8-11", "4-7,12-15"]
        );
        assert_eq!(
            parts(&["0-3,8-11"; 3], &eight()),
            ["0,8", "1,9", "2-3,10-11"]
        );
        assert_eq!(parts(&["0-15"], &eight()), ["0-15"]);
        // One sibling of each core is all that is allowed.
        assert_eq!(parts(&["0-3", "0-3"], &eight()), ["0-1", "2-3"]);
    }

    #[test]
    fn fewer_cores_than_tasks_are_shared_evenly() {
        let two = Cores::default();
        assert_eq!(parts(&["0-1"; 4], &two), ["0", "0", "1", "1"]);
        assert_eq!(parts(&["0-1"; 3], &two), ["0", "0", "1"]);
        assert_eq!(parts(&["0-1"; 5], &two), ["0", "0", "0", "1", "1"]);
        assert_eq!(parts(&["0-2"; 4], &two), ["0", "0", "1", "2"]);
    }

    #[test]
    fn wants_that_overlap_in_part() {
        // Cores 0-1 are the first's alone, 2-5 both want, 6-7 are the second's alone.
        assert_eq!(
            parts(&["0-5,8-13", "2-7,10-15"], &eight()),
            ["0-3,8-11", "4-7,12-15"]
        );
        assert_eq!(
            parts(&["0-1,8-9", "4,12", ""], &eight()),
            ["0-1,8-9", "4,12", ""]
        );
    }

    #[test]
    fn fewer_cores_than_tasks() {
        let found = parts(&["0,8", "0,8", "0,8"], &eight());
        assert_eq!(found, ["0,8", "0,8", "0,8"]);
        let found = parts(&["0-1,8-9"; 3], &eight());
        assert_eq!(found[2], "1,9");
        assert_eq!(parts(&["0"], &Cores::default()), ["0"]);
    }

    proptest! {
        #[test]
        fn disjoint_whole_cores(
            smt in 1u32..4,
            count in 1u32..24,
            allowed in prop::collection::btree_set(0u32..96, 1..96),
            nears in prop::collection::vec((0u32..96, 0u32..96), 1..9),
        ) {
            let core = |number: u32| (0..smt).map(|thread| number + thread * count).collect::<CpuSet>();
            let cores = Cores::new((0..count).map(core));
            let allowed: CpuSet = allowed.into_iter().filter(|cpu| *cpu < smt * count).collect();
            let wants: Vec<CpuSet> = nears
                .iter()
                .map(|(a, b)| CpuSet::from_range(*a.min(b), *a.max(b)).intersection(&allowed))
                .collect();
            let got: Vec<CpuSet> = (0..wants.len()).map(|task| part(&wants, &cores, task)).collect();
            for (task, (want, got)) in wants.iter().zip(&got).enumerate() {
                prop_assert!(got.is_subset(want));
                prop_assert_eq!(got.is_empty(), want.is_empty());
                // What it has of a core is all of it that it wants.
                for number in 0..count {
                    let part = core(number).intersection(got);
                    if !part.is_empty() {
                        prop_assert_eq!(part, core(number).intersection(want));
                    }
                }
                // With enough cores for everybody, none is two tasks'.
                let enough = (0..count)
                    .filter(|number| {
                        wants.iter().all(|want| !core(*number).intersection(want).is_empty())
                    })
                    .count() >= wants.len();
                if enough {
                    for other in got_of_others(task, &wants, &cores) {
                        for number in 0..count {
                            let shared = !core(number).intersection(got).is_empty()
                                && !core(number).intersection(&other).is_empty();
                            prop_assert!(!shared);
                        }
                    }
                }
            }
        }
    }

    fn got_of_others(task: usize, wants: &[CpuSet], cores: &Cores) -> Vec<CpuSet> {
        (0..wants.len())
            .filter(|other| *other != task)
            .map(|other| part(wants, cores, other))
            .collect()
    }
}
