//! The processes of a cage, as the host sees them.

use std::fs;
use std::path::PathBuf;

/// A process inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id on the host.
    pub host_pid: i32,
    /// Its id inside.
    pub pid: i32,
    /// Its parent's id on the host.
    pub parent: i32,
    /// Its short name.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// It has ended and waits for its parent.
    pub zombie: bool,
}

impl Process {
    /// Slurm's own keeper of version 2 control groups, which outlives slurmd by design.
    pub(crate) fn is_slurms_own(&self) -> bool {
        self.command.starts_with("slurmstepd: infinity")
            || self.command.ends_with("slurmstepd infinity")
    }
}

/// All processes of the PID namespace in which `init` is the first.
pub(crate) fn list(init: i32) -> Vec<Process> {
    let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    // An ended init has no namespace to compare with.
    let Some(ours) = namespace(init) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| namespace(*pid).as_ref() == Some(&ours))
        .filter_map(read)
        .collect()
}

fn read(host_pid: i32) -> Option<Process> {
    let dir = PathBuf::from(format!("/proc/{host_pid}"));
    let status = fs::read_to_string(dir.join("status")).ok()?;
    let command = fs::read(dir.join("cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command)
        .replace('\0', " ")
        .trim()
        .to_owned();
    parse(host_pid, &status, command)
}

fn parse(host_pid: i32, status: &str, command: String) -> Option<Process> {
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    };
    Some(Process {
        host_pid,
        pid: field("NSpid")?.split_whitespace().last()?.parse().ok()?,
        parent: field("PPid")?.parse().ok()?,
        name: field("Name")?.to_owned(),
        command,
        zombie: field("State")?.starts_with(['Z', 'X']),
    })
}

/// Whether a `/proc/net/tcp` has a listening socket on a port.
pub(crate) fn listens(table: &str, port: u16) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|address| address.rsplit_once(':'));
        let state = fields.nth(1);
        local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port))
            && state == Some("0A")
    })
}

/// Those below a process that `is_above` chooses, however deep.
pub(crate) fn below(all: &[Process], is_above: impl Fn(&Process) -> bool) -> Vec<&Process> {
    let above = |process: &Process| {
        let mut parent = process.parent;
        // No chain is longer than there are processes.
        for _ in all {
            let Some(found) = all.iter().find(|one| one.host_pid == parent) else {
                return false;
            };
            if is_above(found) {
                return true;
            }
            parent = found.parent;
        }
        false
    };
    all.iter().filter(|process| above(process)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_port_is_seen() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     0: 00000000:1AA1 00000000:0000 0A 00000000:00000000\n\
                     1: 0100007F:1B59 0100007F:C350 01 00000000:00000000\n";
        assert!(listens(table, 6817));
        assert!(!listens(table, 7001));
        assert!(!listens("", 6817));
    }

    #[test]
    fn descendants_are_found() {
        let process = |host_pid, parent, name: &str| Process {
            host_pid,
            pid: host_pid,
            parent,
            name: name.into(),
            command: String::new(),
            zombie: false,
        };
        let all = [
            process(2, 1, "slurmstepd"),
            process(3, 2, "bash"),
            process(4, 3, "sleep"),
            process(5, 1, "munged"),
        ];
        let found = below(&all, |process| process.name == "slurmstepd");
        assert_eq!(
            found.iter().map(|process| process.pid).collect::<Vec<_>>(),
            [3, 4]
        );
    }

    #[test]
    fn a_status_file_gives_both_ids() {
        let status =
            "Name:\tslurmd\nState:\tS (sleeping)\nPid:\t4242\nPPid:\t4000\nNSpid:\t4242\t17\n";
        let process = parse(4242, status, "slurmd -D".into()).unwrap();
        assert_eq!(
            (process.pid, process.parent, process.zombie),
            (17, 4000, false)
        );
        assert_eq!(process.name, "slurmd");
    }
}
