//! Jobs, and who got which GPU and cores.

use std::time::Duration;

use anyhow::Result;
use harness::{Cluster, JobId, User};

use crate::show;

/// How long each job runs.
const SECONDS: &str = "15";

/// What a task may open. A device that it may has no driver behind it here; one that it may not is
/// forbidden by its control group.
const LOOK: &str = "echo CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES, may open \
    $(for file in /dev/nvidia[0-9]*; do cat $file 2>&1 | grep -q 'No such device' && echo $file; done)";

/// Jobs as users ask for them.
const REQUESTS: [(&str, &[&str]); 3] = [
    ("two of a type", &["--gres=gpu:h100:2"]),
    ("one for each task", &["-n4", "--gpus-per-task=1"]),
    (
        "close to their cores",
        &[
            "-n2",
            "--gpus-per-task=2",
            "--gpu-bind=closest",
            "--gres-flags=enforce-binding",
        ],
    ),
];

/// Runs them side by side, shows what each got, and gives their numbers.
pub(crate) fn tell(cluster: &Cluster) -> Result<Vec<JobId>> {
    show::chapter("Jobs");
    let mut running = Vec::new();
    for (number, (what, request)) in (1..).zip(REQUESTS) {
        let mut words = request.to_vec();
        let name = format!("demo{number}");
        words.extend(["-J", &name, "-l"]);
        let script = format!("{LOOK}; sleep {SECONDS}");
        let mut shown = request.to_vec();
        shown.push("train.sh");
        show::command("srun", &shown);
        println!("  ({what})");
        words.extend(["sh", "-c", &script]);
        let child = cluster
            .command("srun")
            .args(&words)
            .user(User::Alice)
            .timeout(Duration::from_secs(120))
            .command()?
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        running.push((name, child));
    }

    let mut jobs = Vec::new();
    let mut rows = Vec::new();
    for (name, _) in &running {
        let id = cluster.wait_running(name, Duration::from_secs(60))?;
        jobs.push(id);
        let said = cluster
            .run("scontrol", ["show", "job", "-d", &id.to_string()])?
            .ok()?
            .stdout;
        for line in said.lines().filter(|line| line.contains("CPU_IDs=")) {
            let field = |key: &str| {
                line.split_whitespace()
                    .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
                    .unwrap_or("-")
                    .to_owned()
            };
            rows.push(vec![
                id.to_string(),
                field("Nodes"),
                field("CPU_IDs"),
                field("GRES"),
            ]);
        }
    }
    println!("\nWho got what (scontrol show job -d):");
    show::table(&["JOB", "NODE", "CORES", "GPUS"], &rows);

    println!("\nWhat each task sees, once the jobs have run {SECONDS} s:");
    for ((name, child), id) in running.into_iter().zip(&jobs) {
        let said = child.wait_with_output()?;
        anyhow::ensure!(said.status.success(), "job {name} failed: {said:?}");
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        for line in lines {
            println!("  job {id} task {line}");
        }
    }
    Ok(jobs)
}
