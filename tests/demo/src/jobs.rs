//! Jobs, and who got which GPU and cores.

use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::Result;
use harness::{Cluster, JobId, User};

use crate::show;

/// How long each job runs.
const SECONDS: &str = "30";

/// What a task may open. A device that it may has no driver behind it here; one that it may not is
/// forbidden by its control group.
const LOOK: &str = "echo CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES, may open \
    $(for file in /dev/nvidia[0-9]*; do cat $file 2>&1 | grep -q 'No such device' && echo $file; done)";

/// Jobs as users ask for them.
const REQUESTS: [(&str, &[&str]); 3] = [
    ("two of a type", &["--gres=gpu:h100:2"]),
    ("one for each task", &["-n4", "--gpus-per-task=1"]),
    (
        "all of the job's that are near each task's cores",
        &[
            // On one node, or 22.05 reckons with as many tasks as the node's free GPUs could serve, and
            // slurmctld logs `error: gres_min_cpus=4 is greater than avail_cpus=2`.
            "-N1",
            "-n2",
            "--gpus-per-task=2",
            "--gpu-bind=closest",
            "--gres-flags=enforce-binding",
        ],
    ),
];

/// A job, and what it got.
pub(crate) struct Job {
    /// Its number.
    pub(crate) id: JobId,
    /// Its node.
    pub(crate) node: String,
    /// The indices of its GPUs there.
    pub(crate) gpus: Vec<usize>,
}

/// What 22.05 says of a task with `--gpu-bind=closest` where no GPU of its job is near.
const NOT_NEAR: &str = "does not specify any devices within the allocation";

/// Starts them one after the other, so that each run of the demo shows the same, shows what each got, and
/// waits for their ends.
pub(crate) fn tell(cluster: &Cluster) -> Result<Vec<Job>> {
    show::chapter("Jobs");
    let mut running = Vec::new();
    let mut jobs = Vec::new();
    let mut rows = Vec::new();
    for (number, (what, request)) in (1..).zip(REQUESTS) {
        let name = format!("demo{number}");
        let mut shown = request.to_vec();
        shown.push("train.sh");
        show::command("srun", &shown);
        println!("  ({what})");
        running.push(start(cluster, &name, request)?);
        let id = cluster.wait_running(&name, Duration::from_secs(60))?;
        let said = cluster
            .run("scontrol", ["show", "job", "-d", &id.to_string()])?
            .ok()?
            .stdout;
        let mut job = Job {
            id,
            node: String::new(),
            gpus: Vec::new(),
        };
        for line in said.lines().filter(|line| line.contains("CPU_IDs=")) {
            let [node, cores, gres] = ["Nodes", "CPU_IDs", "GRES"].map(|key| field(line, key));
            node.clone_into(&mut job.node);
            job.gpus = indices(gres);
            rows.push(
                [&id.to_string(), node, cores, gres]
                    .map(str::to_owned)
                    .to_vec(),
            );
        }
        jobs.push(job);
    }
    println!("\nWho got what (scontrol show job -d):");
    show::table(&["JOB", "NODE", "CORES", "GPUS"], &rows);

    println!("\nWhat each task sees, once the jobs have run {SECONDS} s:");
    for (child, job) in running.into_iter().zip(&jobs) {
        let said = child.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&said.stderr);
        anyhow::ensure!(
            said.status.success(),
            "job {} failed ({}): {}",
            job.id,
            said.status,
            stderr.trim()
        );
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        for line in lines {
            println!("  job {} task {line}", job.id);
        }
        for line in stderr.lines() {
            println!("  job {} said: {line}", job.id);
        }
        if stderr.contains(NOT_NEAR) {
            println!(
                "  (Tasks here run on this machine's own few CPUs, not on the cores of their job: none of its \
                 GPUs is close to those. On a true node the cores are the job's.)"
            );
        }
    }
    Ok(jobs)
}

fn start(cluster: &Cluster, name: &str, request: &[&str]) -> Result<Child> {
    let mut words = request.to_vec();
    let script = format!("{LOOK}; sleep {SECONDS}");
    words.extend(["-J", name, "-l", "sh", "-c", &script]);
    let child = cluster
        .command("srun")
        .args(&words)
        .user(User::Alice)
        .timeout(Duration::from_secs(120))
        .command()?
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// A field of a line of scontrol's.
fn field<'a>(line: &'a str, key: &str) -> &'a str {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        .unwrap_or("-")
}

/// The indices in `gpu:h100:3(IDX:0-1,4)`.
fn indices(gres: &str) -> Vec<usize> {
    let list = gres
        .split_once("(IDX:")
        .and_then(|(_, rest)| rest.split(')').next())
        .unwrap_or_default();
    list.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_read_as_scontrol_writes_them() {
        assert_eq!(indices("gpu:h100:4(IDX:0-1,4,7)"), [0, 1, 4, 7]);
        assert_eq!(indices("gpu:h100:1(IDX:3)"), [3]);
        assert!(indices("-").is_empty());
    }
}
