//! The processes that `/proc` shows. Not by `/proc/PID/task/TID/children`, which some kernels have not.

use std::fs;
use std::path::Path;

use spank_core::checkpoint::target::Process;

/// All that this user may see.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            read(pid, &entry.path())
        })
        .collect()
}

fn read(pid: i32, folder: &Path) -> Option<Process> {
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
