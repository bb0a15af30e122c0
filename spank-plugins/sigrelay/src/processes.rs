//! The processes that `/proc` shows. Not by `/proc/PID/task/TID/children`, which some kernels have not.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use spank_core::checkpoint::target::Process;

/// Deeper than any task's.
const DEEPEST: usize = 1 << 12;

/// A process and what is below it, as far as this user may see.
pub(crate) fn below(task: i32) -> Vec<Process> {
    let parents = parents();
    let below = |pid| ancestors(pid, |pid| parents.get(&pid).copied()).any(|above| above == task);
    // A machine has thousands of processes, a task a few: only these are looked at closely.
    let own = parents.keys().copied().filter(|pid| below(*pid));
    own.filter_map(read).collect()
}

/// Whether a process is another one or below it.
pub(crate) fn is_below(pid: i32, task: i32) -> bool {
    ancestors(pid, parent).any(|above| above == task)
}

/// A process, its parent, and so on.
fn ancestors(pid: i32, parent: impl Fn(i32) -> Option<i32>) -> impl Iterator<Item = i32> {
    std::iter::successors(Some(pid), move |pid| parent(*pid))
        .take_while(|pid| *pid > 1)
        .take(DEEPEST)
}

/// The parent of each process.
fn parents() -> BTreeMap<i32, i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parent(pid)?))
        })
        .collect()
}

/// The fourth field of `/proc/PID/stat`; the second may have anything in its parentheses.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read(folder(pid).join("stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn folder(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

fn read(pid: i32) -> Option<Process> {
    let folder = folder(pid);
    let status = fs::read(folder.join("status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let parent = field("PPid")?.parse().ok()?;
    // A zombie hears nothing.
    if field("State")?.starts_with('Z') {
        return None;
    }
    let signals = |name: &str| u64::from_str_radix(field(name)?, 16).ok();
    // A script's own name is in `Name`, its shell behind `exe`.
    let program = fs::read_link(folder.join("exe")).ok();
    let program = program
        .as_deref()
        .and_then(|program| program.file_name()?.to_str())
        .map(|name| name.trim_end_matches(" (deleted)"));
    Some(Process {
        pid,
        parent,
        name: program.or(field("Name")).unwrap_or_default().to_owned(),
        ready: signals("SigCgt")? | signals("SigBlk")?,
    })
}
