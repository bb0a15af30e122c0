//! Which of a task's processes gets the signal.

use std::collections::HashSet;

use sgpu_config::{Scope, Signal};

/// A process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// The file name of its program, or what it calls itself.
    pub name: String,
    /// The signals that it has handlers for or waits for with them blocked, bit n - 1 for signal n (`SigCgt` and
    /// `SigBlk` of `/proc/PID/status`).
    pub ready: u64,
}

impl Process {
    fn is_ready(&self, signal: Signal) -> bool {
        signal
            .number()
            .checked_sub(1)
            .and_then(|bit| u32::try_from(bit).ok())
            .and_then(|bit| self.ready.checked_shr(bit))
            .is_some_and(|bits| bits & 1 == 1)
    }
}

/// Programs that start others, and whose handlers are for what they start themselves.
const SHELLS: [&str; 16] = [
    "sh", "bash", "rbash", "dash", "ash", "busybox", "zsh", "ksh", "ksh93", "mksh", "csh", "tcsh",
    "fish", "time", "timeout", "script",
];
/// Programs whose tasks have relays of their own.
const LAUNCHERS: [&str; 1] = ["srun"];

/// The processes that get the signal, of a task whose own process is `task`.
///
/// Only those that are ready for it, since all others would die of it: programs, or else shells (a script's trap).
/// Of the leader's scope it is the one nearest to the task, of the tree's all.
#[must_use]
pub fn choose(processes: &[Process], task: i32, scope: Scope, signal: Signal) -> Vec<i32> {
    let ready = descendants(processes, task)
        .into_iter()
        .filter(|process| process.is_ready(signal));
    let (shells, programs): (Vec<&Process>, Vec<&Process>) =
        ready.partition(|process| SHELLS.contains(&process.name.as_str()));
    let chosen = if programs.is_empty() {
        shells
    } else {
        programs
    };
    let count = match scope {
        Scope::Leader => 1,
        Scope::Tree => chosen.len(),
    };
    let chosen = chosen.iter().take(count);
    chosen.map(|process| process.pid).collect()
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

    /// One that dies of the signal.
    fn deaf(pid: i32, parent: i32, name: &str) -> Process {
        Process {
            pid,
            parent,
            name: name.into(),
            ready: 0,
        }
    }

    /// One that is ready for SIGUSR1.
    fn process(pid: i32, parent: i32, name: &str) -> Process {
        Process {
            ready: 1 << 9,
            ..deaf(pid, parent, name)
        }
    }

    fn leader(processes: &[Process]) -> Vec<i32> {
        choose(processes, 10, Scope::Leader, USR1)
    }

    #[test]
    fn the_first_that_is_no_shell() {
        let processes = [
            deaf(1, 0, "init"),
            process(5, 1, "python3"),
            deaf(10, 1, "bash"),
            deaf(11, 10, "sh"),
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
    fn who_would_die_of_it_is_left_in_peace() {
        let copying = [deaf(10, 1, "bash"), deaf(11, 10, "rsync")];
        assert_eq!(leader(&copying), [0_i32; 0]);
        assert_eq!(choose(&copying, 10, Scope::Tree, USR1), [0_i32; 0]);
        // A launcher that does not know the signal, and its workers that do.
        let launched = [
            deaf(10, 1, "torchrun"),
            process(11, 10, "python3"),
            process(12, 10, "python3"),
            deaf(13, 11, "helper"),
        ];
        assert_eq!(choose(&launched, 10, Scope::Tree, USR1), [11, 12]);
        assert_eq!(leader(&launched), [11]);
        let other = Process {
            ready: 1 << 11,
            ..deaf(10, 1, "python3")
        };
        assert_eq!(leader(&[other]), [0_i32; 0]);
    }

    #[test]
    fn steps_that_a_script_starts_have_relays_of_their_own() {
        let script = [
            deaf(10, 1, "bash"),
            process(11, 10, "srun"),
            process(12, 11, "srun"),
        ];
        assert_eq!(leader(&script), [0_i32; 0]);
        let beside = [&script[..], &[process(13, 10, "python3")]].concat();
        assert_eq!(leader(&beside), [13]);
        assert_eq!(leader(&[process(10, 1, "srun")]), [0_i32; 0]);
    }

    #[test]
    fn a_shells_trap_counts_when_no_program_is_ready() {
        let trap = process(10, 1, "bash");
        assert_eq!(leader(std::slice::from_ref(&trap)), [10]);
        assert_eq!(leader(&[trap.clone(), deaf(11, 10, "sleep")]), [10]);
        assert_eq!(leader(&[trap, process(11, 10, "python3")]), [11]);
    }

    #[test]
    fn a_table_that_was_read_while_it_changed_ends() {
        let circle = [deaf(10, 11, "bash"), deaf(11, 10, "bash")];
        assert_eq!(leader(&circle), [0_i32; 0]);
    }
}
