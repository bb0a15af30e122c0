//! Joules in SlurmDBD: a job of five minutes on a part of the node's GPUs, power that varies, devices
//! constrained, and slurmd restarted in between.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fake_nvml::Scenario;
use fake_nvml::scenario::Cycle;
use harness::{Cluster, Plugins, Release, User};
use suites::{jobs, sacct};

/// Seconds and watts of GPU 0, again and again. The others follow it, each 10 % above the one before.
const CYCLE: [(f64, f64); 4] = [(7.0, 500.0), (13.0, 250.0), (5.0, 95.0), (15.0, 407.0)];

fn watts_of(gpu: usize, watts: f64) -> f64 {
    watts * (1.0 + 0.1 * f64::from(u32::try_from(gpu).unwrap()))
}

/// Joules of a GPU from `begin` to `end`, worked out from the cycle alone.
fn joules(gpu: usize, started: f64, begin: f64, end: f64) -> f64 {
    let period: f64 = CYCLE.iter().map(|(seconds, _)| seconds).sum();
    let per_period: f64 = CYCLE.iter().map(|(seconds, watts)| seconds * watts).sum();
    let until = |at: f64| {
        let elapsed = at - started;
        let mut rest = elapsed % period;
        let mut sum = (elapsed / period).floor() * per_period;
        for (seconds, watts) in CYCLE {
            let spent = rest.min(seconds);
            sum += spent * watts;
            rest -= spent;
        }
        sum
    };
    watts_of(gpu, until(end) - until(begin))
}

fn scenario(started: f64) -> Scenario {
    let mut scenario = Scenario::board("8xh100-sxm5");
    for gpu in 0..8 {
        let device = scenario.device_mut(gpu);
        device.energy_epoch_unix = Some(started);
        device.power_cycle = Some(Cycle {
            start_unix: started,
            steps: CYCLE
                .iter()
                .map(|(seconds, watts)| (*seconds, watts_of(gpu, *watts)))
                .collect(),
        });
    }
    scenario
}

fn five_minutes(release: Release) {
    if !suites::is_under_test(release) {
        return;
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let started = now - 100_000.0;
    let cluster = Cluster::builder(release)
        .scenario(scenario(started))
        .plugins(Plugins::Ours)
        .gres_conf("AutoDetect=nvml")
        .node_gres("gpu:8")
        .accounting(true)
        .constrain_devices(true)
        .job_acct("jobacct_gather/linux", 20)
        .slurm_conf_extra("AcctGatherEnergyType=acct_gather_energy/sgpu")
        .slurm_conf_extra("AcctGatherNodeFreq=30")
        // While slurmd is down, steps do not reach it.
        .allow_log("slurm_get_node_energy: ")
        .start()
        .unwrap();
    let node = cluster.nodes()[0].clone();

    // Another job has the first three GPUs all the while.
    let mut other = cluster
        .command("srun")
        .args(["--gres=gpu:3", "-J", "other", "sleep", "600"])
        .timeout(Duration::from_secs(700))
        .spawn()
        .unwrap();
    let other_id = jobs::wait_running(&cluster, "other");
    // A batch job, whose script outlives its step: where the job's end overtakes the step's, Slurm drops
    // the step's figures.
    let script = "#!/bin/sh\n#SBATCH --gres=gpu:2 --job-name=measured\n\
        srun sh -c 'echo $SLURM_STEP_GPUS; sleep 310'\nsleep 2\n";
    let id = cluster.sbatch(script).unwrap();
    assert_eq!(jobs::wait_running(&cluster, "measured"), id);

    std::thread::sleep(Duration::from_secs(100)); // what is measured is time itself
    cluster.restart_slurmd(&node).unwrap();
    cluster
        .wait_job_state(id, "COMPLETED", Duration::from_secs(300))
        .unwrap();
    // While slurmd was down the step may have said so on the same output.
    let output = cluster.job_output(User::Alice, id).unwrap();
    let gpus: Vec<usize> = output
        .lines()
        .find_map(|line| line.split(',').map(|index| index.parse().ok()).collect())
        .unwrap_or_else(|| panic!("no indices in {output}"));
    assert_eq!(gpus.len(), 2);
    assert!(
        gpus.iter().all(|gpu| *gpu > 2),
        "{gpus:?} are the other job's"
    );

    let step = sacct::step(&sacct::wait(&cluster, id, "COMPLETED"), "0");
    let expected: f64 = gpus
        .iter()
        .map(|gpu| joules(*gpu, started, step.start_unix, step.end_unix))
        .sum();
    let told = step.consumed_energy_joules.expect("ConsumedEnergyRaw");
    let off = told / expected - 1.0;
    eprintln!(
        "{release}: {told:.0} J in SlurmDBD, {expected:.0} J by the scenario in {} s: {:+.2} %",
        step.end_unix - step.start_unix,
        off * 100.0
    );
    assert!(off.abs() < 0.02, "{told} J told, {expected} J used");

    cluster
        .run("scancel", [other_id.to_string()])
        .unwrap()
        .ok()
        .unwrap();
    assert!(!other.wait().unwrap().success());
    cluster.stop().unwrap();
}

#[test]
fn five_minutes_22_05() {
    five_minutes(Release::Slurm22_05);
}

#[test]
fn five_minutes_24_11() {
    five_minutes(Release::Slurm24_11);
}
