//! What a usage poll asks of NVML: a step of 64 processes on 8 GPUs, on slurmstepd 24.11.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fake_nvml::Scenario;
use fake_nvml::scenario::Process;
use harness::{Cluster, Plugins, Release};

const PROCESSES: usize = 64;
const POLL_SECONDS: u32 = 5;
/// Long enough for several polls.
const JOB_SECONDS: u32 = 32;

struct Polls {
    calls: f64,
    /// CPU time of slurmstepd, user and system, over its life.
    cpu_seconds: f64,
}

pub(crate) fn run() -> Result<()> {
    let ours = measure(Plugins::Ours)?;
    let stock = measure(Plugins::Stock)?;
    println!(
        "usage poll of {PROCESSES} processes on 8 GPUs: ours {:.0} NVML calls, Slurm's {:.0}; CPU time of \
         slurmstepd in {JOB_SECONDS} s, a poll each {POLL_SECONDS} s: ours {:.2} s, Slurm's {:.2} s",
        ours.calls, stock.calls, ours.cpu_seconds, stock.cpu_seconds
    );
    println!(
        "figure: discovery.nvml_calls_ratio {:.4} ours/stock",
        ours.calls / stock.calls
    );
    println!(
        "figure: discovery.usage_cpu_ratio {:.4} ours/stock",
        ours.cpu_seconds / stock.cpu_seconds
    );
    Ok(())
}

fn measure(plugins: Plugins) -> Result<Polls> {
    let mut scenario = Scenario::board("8xh100-sxm5");
    scenario.count_calls = Some(PathBuf::from("/tmp/nvml-calls"));
    for device in 0..8 {
        scenario.process.push(Process {
            device,
            comm: Some("sgpu-train".into()),
            gpu_memory_mib: 1000,
            sm_util: 10,
            ..Process::default()
        });
    }
    let cluster = Cluster::builder(Release::Slurm24_11)
        .scenario(scenario)
        .plugins(plugins)
        .gres_conf("AutoDetect=nvml")
        .node_gres("gpu:8")
        .accounting(true)
        .job_acct("jobacct_gather/linux", POLL_SECONDS)
        .slurm_conf_extra("AccountingStorageTRES=gres/gpu,gres/gpumem,gres/gpuutil")
        .start()?;
    let node = cluster.nodes().first().context("a node")?.clone();
    let script = format!(
        "[ -e /tmp/sgpu-train ] || cp /bin/sleep /tmp/sgpu-train$$ && mv /tmp/sgpu-train$$ /tmp/sgpu-train 2>/dev/null; \
         /tmp/sgpu-train {JOB_SECONDS} & wait; cat /proc/$PPID/stat"
    );
    let said = cluster
        .command("srun")
        .args([
            "--gres=gpu:8",
            "-n",
            &PROCESSES.to_string(),
            "--overcommit",
            "sh",
            "-c",
            &script,
        ])
        .timeout(Duration::from_secs(120))
        .run()?
        .ok()?;
    let cpu_seconds = said
        .stdout
        .lines()
        .filter_map(cpu_seconds)
        .fold(0.0, f64::max);
    let calls = fake_nvml::calls::read(&cluster.path(&node, "/tmp/nvml-calls")?)?;
    cluster.stop()?;

    let mine: Vec<_> = calls
        .iter()
        .filter(|call| call.comm.starts_with("slurmstepd"))
        .collect();
    // Slurm's driver counts the devices once for each process of a poll, ours once a poll.
    let counted = mine
        .iter()
        .filter(|call| call.call.starts_with("nvmlDeviceGetCount"))
        .count();
    let polls = match plugins {
        Plugins::Stock => counted / PROCESSES,
        _ => counted,
    };
    ensure!(polls > 2, "only {polls} polls in {} calls", mine.len());
    #[allow(clippy::cast_precision_loss)]
    Ok(Polls {
        calls: mine.len() as f64 / polls as f64,
        cpu_seconds,
    })
}

/// User and system time in a line of `/proc/PID/stat` of a slurmstepd, in seconds of 100 ticks.
fn cpu_seconds(line: &str) -> Option<f64> {
    let (before, after) = line.rsplit_once(") ")?;
    before.contains("(slurmstepd").then_some(())?;
    let mut fields = after.split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}
