//! The daemons' logs: which lines are faults, and which of those are expected.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::{Error, Result};

/// `error:` lines of an unchanged Slurm on a clean boot and job: each with its reason.
const EXPECTED: &[&str] = &[
    // The mpi/pmix plugin is in the package, libpmix is not installed; Slurm tries every mpi plugin.
    r"mpi/pmix|mpi_pmix|pmix|PMIx|libpmix",
    // slurmd removes a stale step socket folder that is not there at a first start.
    r"Domain socket directory",
    // hwloc's synthetic topology cannot be saved as slurmd's XML copy of the machine.
    r"xcpuinfo_hwloc_topo_load",
    // slurmctld's first start finds no state to recover; it does so with `-c` too.
    r"Could not open (node|job|reservation|trigger|assoc_mgr|assoc_usage) state file \S+: No such file",
    r"NOTE: Trying backup state save file",
    r"No (fed_mgr state file|last decay|Assoc usage file) .* to recover",
    // slurmctld times the clock when it starts; the machine is small and shared.
    r"High latency for \d+ calls to gettimeofday",
    // slurmctld tells an srun of the end of its job or step that has just ended itself.
    r"msg_type=SRUN_(JOB_COMPLETE|STEP_SIGNAL)\) failed: (Connection reset by peer|Broken pipe|Message send failure)",
    // slurmctld ends while it still talks to daemons that end too.
    r"agent_fini: left \d+ agent threads active",
    // slurmstepd logs as an error what it writes to a cancelled job's output.
    r"\*\*\* (JOB|STEP) \S+ ON \S+ CANCELLED AT ",
    // slurmdbd still reads from a sacctmgr that has its answer and is gone.
    r"_conn_readable: persistent connection for fd \d+ experienced error\[104\]",
    // A test's database is small on purpose.
    r"Database settings not recommended values",
    // slurmdbd looks for the associations of a cluster that registers for the first time.
    r"We can't find assoc \d+ on cluster",
];

/// Which lines are let pass.
#[derive(Clone, Debug)]
pub(crate) struct Allowed(Vec<Regex>);

impl Allowed {
    pub(crate) fn stock() -> Result<Self> {
        let mut allowed = Self(Vec::new());
        EXPECTED
            .iter()
            .try_for_each(|pattern| allowed.add(pattern))?;
        Ok(allowed)
    }

    pub(crate) fn add(&mut self, pattern: &str) -> Result<()> {
        let regex = Regex::new(pattern)
            .map_err(|error| Error::Unusable(format!("allow_log(\"{pattern}\"): {error}")))?;
        self.0.push(regex);
        Ok(())
    }

    fn allows(&self, line: &str) -> bool {
        self.0.iter().any(|regex| regex.is_match(line))
    }
}

/// All logs of a cluster: files of one folder.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    pub(crate) folder: PathBuf,
}

impl Logs {
    fn files(&self) -> Vec<(String, PathBuf)> {
        let mut files: Vec<_> = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                entry.file_type().ok()?.is_file().then(|| entry.path())
            })
            .map(|path| {
                (
                    path.file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned(),
                    path,
                )
            })
            .collect();
        files.sort();
        files
    }

    /// One of them; empty when it is not there.
    pub(crate) fn read(&self, name: &str) -> String {
        read(&self.folder.join(name))
    }

    /// The last lines of each.
    pub(crate) fn tails(&self, lines: usize) -> String {
        let mut out = String::new();
        for (name, path) in self.files() {
            let text = read(&path);
            if text.trim().is_empty() {
                continue;
            }
            let all: Vec<_> = text.lines().collect();
            let from = all.len().saturating_sub(lines);
            out.push_str(&format!(
                "--- {name} (last {} of {} lines)\n",
                all.len() - from,
                all.len()
            ));
            for line in all.iter().skip(from) {
                out.push_str(line);
                out.push('\n');
            }
        }
        out
    }

    /// Lines that a clean cluster does not write, each once with the file it was found in.
    pub(crate) fn faults(&self, allowed: &Allowed) -> Vec<String> {
        // A daemon in the foreground writes the same message to its log and to stderr.
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        for (name, path) in self.files() {
            for line in read(&path).lines().filter(|line| !allowed.allows(line)) {
                if let Some(message) = fault(line) {
                    found
                        .entry(message.to_owned())
                        .or_insert_with(|| format!("{name}: {line}"));
                }
            }
        }
        found.into_values().collect()
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The message of a line that reports a fault: Slurm's `fatal:` and `error:`, munged's and MariaDB's
/// like, and what a program prints that its loader or its C library ends.
fn fault(line: &str) -> Option<&str> {
    const LOADER: [&str; 5] = [
        "symbol lookup error",
        "error while loading shared libraries",
        "free(): ",
        "malloc(): ",
        "panicked at",
    ];
    if LOADER.iter().any(|mark| line.contains(mark)) {
        return Some(line);
    }
    let mut rest = line;
    // `[time] [12.0] error: ...`, `slurmd: error: ...`, `munged: Error: ...`, `... [ERROR] ...`
    while let Some(end) = rest.strip_prefix('[').and_then(|inner| inner.find("] ")) {
        rest = rest.get(end + 3..)?;
    }
    for daemon in [
        "slurmd",
        "slurmctld",
        "slurmdbd",
        "slurmstepd",
        "munged",
        "srun",
    ] {
        rest = rest
            .strip_prefix(daemon)
            .and_then(|rest| rest.strip_prefix(": "))
            .unwrap_or(rest);
    }
    let fault = ["error: ", "fatal: ", "Error: ", "fatal error: "]
        .iter()
        .any(|mark| rest.starts_with(mark))
        || line.contains(" [ERROR] ");
    fault.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_from_other_lines() {
        for line in [
            "[2025-01-01T00:00:00.123] error: no such plugin",
            "[2025-01-01T00:00:00.123] [12.batch] error: step",
            "slurmd: fatal: Unable to bind",
            "slurmctld: error: x",
            "2025-01-01  1:02:03 0 [ERROR] InnoDB: no space",
            "munged: Error: Failed to open key",
            "/usr/sbin/slurmd: symbol lookup error: /opt/x.so: undefined symbol: conf",
            "thread '<unnamed>' panicked at src/lib.rs:1:1:",
        ] {
            assert!(fault(line).is_some(), "{line}");
        }
        for line in [
            "[2025-01-01T00:00:00.123] debug:  error: in a sentence",
            "[2025-01-01T00:00:00.123] an error: in a sentence",
            "slurmd: slurmd started",
            "",
        ] {
            assert_eq!(fault(line), None, "{line}");
        }
    }

    #[test]
    fn a_message_in_log_and_stderr_is_one() {
        assert_eq!(
            fault("[2025-01-01T00:00:00] error: x"),
            fault("slurmd: error: x")
        );
    }

    #[test]
    fn patterns_let_lines_pass() {
        let mut allowed = Allowed::stock().unwrap();
        assert!(allowed.allows("error: Domain socket directory /x: No such file or directory"));
        assert!(!allowed.allows("error: gres/gpu: count too low"));
        allowed.add("count too low$").unwrap();
        assert!(allowed.allows("error: gres/gpu: count too low"));
        assert!(allowed.add("(").is_err());
    }
}
