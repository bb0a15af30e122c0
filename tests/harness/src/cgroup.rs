//! Control groups of a cluster, on the host.

use std::fs;
use std::path::{Path, PathBuf};

/// What this cluster's nodes and jobs have there: folders named after its nodes, and those below.
pub(crate) fn find(prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), prefix, 0, &mut found);
    found.sort();
    found
}

fn walk(dir: &Path, prefix: &str, depth: u32, found: &mut Vec<PathBuf>) {
    // hierarchy/slurm_<node>, or system.slice/<node>_slurmstepd.scope with version 2
    if depth > 6 {
        return;
    }
    for entry in fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
    {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if path.to_string_lossy().contains(prefix) {
            found.push(path.clone());
        }
        walk(&path, prefix, depth + 1, found);
    }
}

/// Those of jobs with processes in them. Empty ones stay behind at times: the kernel calls a group busy for a while
/// after its last process, and Slurm gives up after a few attempts (`common_cgroup_delete`).
pub(crate) fn of_jobs(found: &[PathBuf]) -> Vec<&PathBuf> {
    found
        .iter()
        .filter(|path| {
            path.components()
                .any(|part| is_job(&part.as_os_str().to_string_lossy()))
        })
        .filter(|path| {
            let processes = fs::read_to_string(path.join("cgroup.procs"));
            processes.is_ok_and(|processes| !processes.trim().is_empty())
        })
        .collect()
}

fn is_job(name: &str) -> bool {
    name.strip_prefix("job_")
        .is_some_and(|id| id.chars().all(|c| c.is_ascii_digit()))
}
