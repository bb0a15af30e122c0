//! The cluster: a real slurmctld, slurmd and slurmdbd, whose clock runs fast.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::{Cluster, Release, User};

use crate::policy::Policy;
use crate::runs::{self, Went};
use crate::workload::{Class, Job, Shape};

/// When the clock starts.
const START: &str = "2030-01-01 00:00:00";
const START_SLURM: &str = "2030-01-01T00:00:00";
/// Cores of a node, and of each GPU's share of it.
const CORES_PER_GPU: u32 = 8;
/// The first job comes so long after all is up, in the cluster's seconds.
const LEAD_S: u64 = 120;
/// Backfill's period.
pub(crate) const BF_INTERVAL_S: u64 = 30;

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// What became of each job.
    pub went: Vec<Went>,
    /// Seconds that submissions came late, of the cluster's clock, sorted.
    pub late_s: Vec<u64>,
    /// slurmctld's own figures, when all was done.
    pub sdiag: String,
    /// The file that it ran by.
    pub slurm_conf: String,
}

/// Work that ends by itself, and goes on where it was when it is begun again after a checkpoint.
const JOB: &str = "\
#!/bin/bash
# $1: seconds of work; $2: seconds between checkpoints, 0 for none
[ \"$2\" = 0 ] && exec sleep \"$1\"
file=~/progress/$SLURM_JOB_NAME
done=0
[ -r \"$file\" ] && while read -r _ at; do done=$at; done <\"$file\"
while [ \"$done\" -lt \"$1\" ]; do
    step=$(($1 - done < $2 ? $1 - done : $2))
    sleep \"$step\"
    done=$((done + step))
    printf '%(%s)T %d\\n' -1 \"$done\" >>\"$file\"
done
";

/// Submits each job at its time: `seconds name sbatch's words`.
const SUBMIT: &str = "\
mkdir -p ~/progress
exec 3<~/jobs
while read -r at name words <&3; do
    printf -v now '%(%s)T' -1
    [ \"$at\" -gt \"$now\" ] && sleep $((at - now))
    sbatch -Q -o /dev/null -J \"$name\" $words || echo \"$name was refused\"
done
";

/// Replays jobs under a policy, `speed` times as fast as they were. `tell` hears how far it is.
///
/// # Errors
/// The cluster does not come up, or a job is lost.
pub fn replay(
    release: Release,
    policy: &Policy,
    shape: &Shape,
    jobs: &[Job],
    speed: u32,
    tell: &dyn Fn(&str),
) -> Result<Replayed> {
    let slurm_conf = slurm_conf(policy);
    let cluster = Cluster::builder(release)
        .nodes(usize::try_from(shape.nodes)?)
        .gpu_devices(shape.gpus_per_node)
        .node_gres(&format!("gpu:{}", shape.gpus_per_node))
        .gres_conf(&format!(
            "Name=gpu File=/dev/nvidia[0-{}]",
            shape.gpus_per_node - 1
        ))
        .cpus_hwloc(&format!(
            "pack:1 numa:1 core:{} pu:1",
            CORES_PER_GPU * shape.gpus_per_node
        ))
        .accounting(true)
        .clock(START, speed)
        .slurm_conf_extra(&slurm_conf)
        // While they start: minutes pass in a second.
        .allow_log("error: Nodes .* not responding")
        // 24.11's slurmstepd of a job that is preempted as it ends.
        .allow_log("error: Unable to unlink domain socket")
        .start()?;
    accounts(&cluster, jobs)?;
    let now = || -> Result<u64> {
        let said = cluster.run("date", ["+%s"])?.ok()?.stdout;
        said.trim().parse().with_context(|| format!("date: {said}"))
    };
    let zero = now()? + LEAD_S;
    let home = cluster.path(cluster.controller(), User::Alice.home())?;
    std::fs::write(home.join("job.sh"), JOB)?;
    std::fs::write(home.join("submit.sh"), SUBMIT)?;
    std::fs::write(home.join("jobs"), lines(jobs, shape, zero))?;
    let span = jobs.last().map_or(0, |job| job.submit_s);
    let deadline = Duration::from_secs((span * 6 + 200_000) / u64::from(speed) + 120);
    let mut submit = cluster
        .command("bash")
        .args([&format!("{}/submit.sh", User::Alice.home())])
        .user(User::Alice)
        .timeout(deadline)
        .spawn()?;
    let begun = Instant::now();
    let sacct = loop {
        std::thread::sleep(Duration::from_secs(1));
        let queue = cluster.run("squeue", ["-h", "-o", "%T"])?.ok()?.stdout;
        let running = queue.lines().filter(|state| *state == "RUNNING").count();
        let submitted = submit.try_wait()?.is_some();
        tell(&format!(
            "{} of {} h submitted, {running} jobs run, {} wait",
            now()?.saturating_sub(zero).min(span) / 3600,
            span / 3600,
            queue.lines().count() - running
        ));
        if submitted && queue.is_empty() {
            let said = sacct(&cluster)?;
            if runs::parse(&said, jobs.len(), zero).is_ok() {
                break said;
            }
            // slurmdbd hears of ends a moment later.
        }
        if begun.elapsed() > deadline {
            let fault = runs::parse(&sacct(&cluster)?, jobs.len(), zero).err();
            bail!(
                "not done after {} s: {}\n{queue}",
                deadline.as_secs(),
                fault.map_or_else(String::new, |fault| fault.to_string())
            );
        }
    };
    let output = submit.wait_with_output()?;
    let refused = String::from_utf8_lossy(&output.stdout);
    ensure!(refused.trim().is_empty(), "{refused}");
    let mut went = runs::parse(&sacct, jobs.len(), zero)?;
    let mut late_s = Vec::new();
    for (number, (went, job)) in went.iter_mut().zip(jobs).enumerate() {
        late_s.push(went.submit_s.saturating_sub(job.submit_s));
        let marks = std::fs::read_to_string(home.join(format!("progress/j{number}")));
        let marks = marks.unwrap_or_default();
        let times = marks
            .lines()
            .filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
        went.checkpoints_s = times.map(|at| at.saturating_sub(zero)).collect();
    }
    late_s.sort_unstable();
    let sdiag = cluster.run("sdiag", [""; 0])?.ok()?.stdout;
    let slurm_conf = cluster.path(cluster.controller(), "/etc/slurm/slurm.conf")?;
    let slurm_conf = std::fs::read_to_string(slurm_conf)?;
    cluster.stop()?;
    Ok(Replayed {
        went,
        late_s,
        sdiag,
        slurm_conf,
    })
}

fn slurm_conf(policy: &Policy) -> String {
    format!(
        "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSlurmdTimeout=0\nMessageTimeout=100\n\
         UnkillableStepTimeout=60000\nBatchStartTimeout=1000\nKillWait=1\nMinJobAge=86400\nJobRequeue=1\n\
         SchedulerParameters=bf_interval={BF_INTERVAL_S},bf_max_job_test=1000,bf_continue{}\n\
         PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP \
         TRESBillingWeights=CPU=0,GRES/gpu=1\n{}",
        policy.scheduler_parameters, policy.slurm_conf
    )
}

/// One account for each that a job is charged to, and the classes.
fn accounts(cluster: &Cluster, jobs: &[Job]) -> Result<()> {
    let mut names: Vec<&str> = jobs.iter().map(|job| job.account.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let all = names.join(",");
    let (low, normal, high) = (Class::Low.qos(), Class::Normal.qos(), Class::High.qos());
    for words in [
        format!("add account {all}"),
        format!("add qos {low},{normal} Priority=0"),
        format!("add qos {high} Priority=10 Preempt={low}"),
        format!("add user alice account={all}"),
        format!("modify user alice set qos+={low},{normal},{high}"),
    ] {
        let words = std::iter::once("-i").chain(words.split(' '));
        cluster.run("sacctmgr", words)?.ok()?;
    }
    Ok(())
}

fn lines(jobs: &[Job], shape: &Shape, zero: u64) -> String {
    let mut text = String::new();
    for (number, job) in jobs.iter().enumerate() {
        let nodes = job.gpus.div_ceil(shape.gpus_per_node);
        let gpus = job.gpus / nodes;
        let _ = writeln!(
            text,
            "{} j{number} -A {} -q {} -t {} -N {nodes} --ntasks-per-node=1 --gpus-per-node={gpus} -c {} {}/job.sh {} {}",
            zero + job.submit_s,
            job.account,
            job.class.qos(),
            job.limit_minutes,
            gpus * CORES_PER_GPU,
            User::Alice.home(),
            job.run_s,
            job.checkpoint_s.unwrap_or(0)
        );
    }
    text
}

fn sacct(cluster: &Cluster) -> Result<String> {
    let said = cluster.run(
        "sacct",
        [
            "-a",
            "-D",
            "-X",
            "-P",
            "-n",
            "-S",
            START_SLURM,
            "-o",
            "JobName%20,Submit,Start,End,State",
        ],
    )?;
    Ok(said.ok()?.stdout)
}
