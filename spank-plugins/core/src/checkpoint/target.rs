//! Which of a task's processes gets the signal.

use std::collections::HashSet;

use sgpu_config::Scope;

use super::signal::Signal;

/// A process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// The file name of its program, or what it calls itself.
    pub name: String,
    /// The signals that it has handlers for, bit n - 1 for signal n (`SigCgt` of `/proc/PID/status`).
    pub caught: u64,
}

impl Process {
    fn catches(&self, signal: Signal) -> bool {
        signal
            .number()
            .checked_sub(1)
            .and_then(|bit| u32::try_from(bit).ok())
            .and_then(|bit| self.caught.checked_shr(bit))
            .is_some_and(|bits| bits & 1 == 1)
    }
}

/// Programs that start others and know nothing of checkpoints: a shell dies of SIGUSR1.
const SHELLS: [&str; 16] = [
    "sh", "bash", "rbash", "dash", "ash", "busybox", "zsh", "ksh", "ksh93", "mksh", "csh", "tcsh",
    "fish", "time", "timeout", "script",
];
/// Programs whose tasks have relays of their own.
const LAUNCHERS: [&str; 1] = ["srun"];

/// The processes that get the signal, of a task whose own process is `task`.
///
/// Those that have a handler for it: programs, or else shells (a script's trap). When nobody has, the programs
/// get it all the same, but no shell, which would die of it. Of the leader's scope it is the first of these,
/// those nearer to the task first; of the tree's, all.
#[must_use]
pub fn choose(processes: &[Process], task: i32, scope: Scope, signal: Signal) -> Vec<i32> {
    let tree = descendants(processes, task);
    let (shells, programs): (Vec<&Process>, Vec<&Process>) = tree
        .into_iter()
        .partition(|process| SHELLS.contains(&process.name.as_str()));
    let catching = |of: &[&Process]| -> Vec<i32> {
        let those = of.iter().filter(|process| process.catches(signal));
        those.map(|process| process.pid).collect()
    };
    let mut chosen = [catching(&programs), catching(&shells)]
        .into_iter()
        .find(|some| !some.is_empty())
        .unwrap_or_else(|| programs.iter().map(|process| process.pid).collect());
    if scope == Scope::Leader {
        chosen.truncate(1);
    }
    chosen
}

/// The task and what is below it, by generations, without launchers and what is below them.
fn descendants(processes: &[Process], task: i32) -> Vec<&Process> {
    let mut tree: Vec<&Process> = processes.iter().filter(|own| own.pid == task).collect();
    let mut known: HashSet<i32> = tree.iter().map(|process| process.pid).collect();
    let mut generation = known.clone();
    while !generation.is_empty() {
        let children: Vec<&Process> = processes
            .iter()
            .filter(|process| generation.contains(&process.parent))
            .filter(|process| !LAUNCHERS.contains(&process.name.as_str()))
            .filter(|process| known.insert(process.pid))
            .collect();
        generation = children.iter().map(|process| process.pid).collect();
        tree.extend(children);
    }
    tree.retain(|process| !LAUNCHERS.contains(&process.name.as_str()));
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    const USR1: Signal = Signal::of_number(10);

    fn process(pid: i32, parent: i32, name: &str) -> Process {
        Process {
            pid,
            parent,
            name: name.into(),
            caught: 0,
        }
    }

    fn leader(processes: &[Process]) -> Vec<i32> {
        choose(processes, 10, Scope::Leader, USR1)
    }

    #[test]
    fn the_first_that_is_no_shell() {
        let processes = [
            process(1, 0, "init"),
            process(5, 1, "python3"),
            process(10, 1, "bash"),
            process(11, 10, "sh"),
            process(13, 12, "python3"),
            process(14, 12, "python3"),
            process(12, 11, "python3"),
        ];
        assert_eq!(leader(&processes), [12]);
        assert_eq!(choose(&processes, 10, Scope::Tree, USR1), [12, 13, 14]);
        assert_eq!(leader(&[process(10, 1, "python3")]), [10]);
        assert_eq!(leader(&processes[..2]), [0_i32; 0]);
    }

    #[test]
    fn steps_that_a_script_starts_have_relays_of_their_own() {
        let script = [
            process(10, 1, "bash"),
            process(11, 10, "srun"),
            process(12, 11, "srun"),
        ];
        assert_eq!(leader(&script), [0_i32; 0]);
        let beside = [&script[..], &[process(13, 10, "python3")]].concat();
        assert_eq!(leader(&beside), [13]);
        assert_eq!(leader(&[process(10, 1, "srun")]), [0_i32; 0]);
    }

    #[test]
    fn a_shell_with_a_trap_gets_it_when_nothing_below_it_has_a_handler() {
        let catching = |process: Process, signal: i32| Process {
            caught: 1 << (signal - 1),
            ..process
        };
        let shell = || process(10, 1, "bash");
        let (trap, other) = (catching(shell(), 10), catching(shell(), 12));
        assert_eq!(leader(std::slice::from_ref(&trap)), [10]);
        assert_eq!(leader(&[trap.clone(), process(11, 10, "sleep")]), [10]);
        let train = catching(process(11, 10, "python3"), 10);
        assert_eq!(leader(&[trap, train]), [11]);
        assert_eq!(leader(std::slice::from_ref(&other)), [0_i32; 0]);
        assert_eq!(leader(&[other, process(11, 10, "train")]), [11]);
    }

    #[test]
    fn a_launcher_without_a_handler_does_not_die_of_its_workers_signal() {
        let mut processes = [
            process(10, 1, "torchrun"),
            process(11, 10, "python3"),
            process(12, 10, "python3"),
            process(13, 11, "helper"),
        ];
        for worker in &mut processes[1..3] {
            worker.caught = 1 << 9;
        }
        assert_eq!(choose(&processes, 10, Scope::Tree, USR1), [11, 12]);
        assert_eq!(leader(&processes), [11]);
    }

    #[test]
    fn a_table_that_was_read_while_it_changed_ends() {
        let circle = [process(10, 11, "bash"), process(11, 10, "bash")];
        assert_eq!(leader(&circle), [0_i32; 0]);
    }
}
