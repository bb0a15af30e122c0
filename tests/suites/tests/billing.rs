//! Who pays for which joules: steps and the batch script that starts them, several GPU types, MIG devices,
//! GPUs that slurmd numbers anew, and an NVML that is slow or fails now and then.
//!
//! Each GPU draws a power of its own, so that joules tell whose they are.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fake_nvml::Scenario;
use fake_nvml::scenario::Fault;
use fake_nvml::status::Status;
use harness::{Builder, Cluster, JobId, Plugins, Release, User};
use suites::sacct::{self, Row};
use suites::{may_lack_a_gpu, on_each_release, published_map};

/// Power of the GPU at a place of the board, in watts.
fn watts(place: usize) -> f64 {
    100.0 * f64::from(u32::try_from(place + 1).unwrap())
}

/// A board whose GPUs have run for long.
fn board(name: &str, gpus: usize) -> Scenario {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let mut scenario = Scenario::board(name);
    for gpu in 0..gpus {
        let device = scenario.device_mut(gpu);
        device.power_w = Some(watts(gpu));
        device.energy_epoch_unix = Some(now - 100_000.0);
    }
    scenario
}

fn metered(release: Release, scenario: &Scenario, gres: &str) -> Builder {
    Cluster::builder(release)
        .scenario(scenario.clone())
        .plugins(Plugins::Ours)
        .gres_conf("AutoDetect=nvml")
        .node_gres(gres)
        .accounting(true)
        .constrain_devices(true)
        .job_acct("jobacct_gather/linux", 2)
        .slurm_conf_extra("AcctGatherEnergyType=acct_gather_energy/sgpu")
        .slurm_conf_extra("AcctGatherNodeFreq=10")
}

/// A row's joules are those of so many watts from its start to its end, which SlurmDBD keeps in whole
/// seconds.
fn assert_joules(row: &Row, watts: f64) {
    assert_joules_of(row, watts, row.end_unix - row.start_unix);
}

fn assert_joules_of(row: &Row, watts: f64, seconds: f64) {
    let told = row.consumed_energy_joules.unwrap_or(0.0);
    assert!(
        (told - watts * seconds).abs() <= watts * 2.5,
        "{told} J told for {watts} W and {seconds} s: {row:?}"
    );
}

fn ended(cluster: &Cluster, id: JobId) -> Vec<Row> {
    cluster
        .wait_job_state(id, "COMPLETED", Duration::from_secs(90))
        .unwrap();
    sacct::wait(cluster, id, "COMPLETED")
}

/// The gres indices that a job's output begins with.
fn indices(cluster: &Cluster, id: JobId) -> Vec<usize> {
    let output = cluster.job_output(User::Alice, id).unwrap();
    output
        .lines()
        .find_map(|line| line.split(',').map(|index| index.parse().ok()).collect())
        .unwrap_or_else(|| panic!("no indices in {output}"))
}

/// A job on two GPUs whose script does something before, during and after its step.
const SCRIPT: &str = "#!/bin/sh\n#SBATCH --gres=gpu:2\nsleep 6\nsrun sleep 9\nsleep 6\n";

fn job(rows: &[Row]) -> &Row {
    rows.iter().find(|row| !row.name.contains('.')).unwrap()
}

#[test]
fn a_batch_script_pays_for_what_its_steps_do_not() {
    on_each_release(|release| {
        let cluster = metered(release, &board("8xh100-sxm5", 8), "gpu:8")
            .start()
            .unwrap();
        let rows = ended(&cluster, cluster.sbatch(SCRIPT).unwrap());
        // The idle node gives its first two GPUs.
        let both = watts(0) + watts(1);
        let (batch, step) = (sacct::step(&rows, "batch"), sacct::step(&rows, "0"));
        assert_joules(&step, both);
        let alone = (batch.end_unix - batch.start_unix) - (step.end_unix - step.start_unix);
        assert!(alone > 11.0, "{rows:?}");
        assert_joules_of(&batch, both, alone);
        // Slurm's own sum for the job leaves the script out.
        assert_eq!(
            job(&rows).consumed_energy_joules,
            step.consumed_energy_joules
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn with_an_extern_step_the_job_itself_has_all_that_it_used() {
    on_each_release(|release| {
        let cluster = metered(release, &board("8xh100-sxm5", 8), "gpu:8")
            .slurm_conf_extra("PrologFlags=Contain")
            .start()
            .unwrap();
        let rows = ended(&cluster, cluster.sbatch(SCRIPT).unwrap());
        let both = watts(0) + watts(1);
        assert_joules(job(&rows), both);
        assert!(job(&rows).end_unix - job(&rows).start_unix > 20.0);
        assert_joules(&sacct::step(&rows, "extern"), both);
        assert_joules(&sacct::step(&rows, "0"), both);
        cluster.stop().unwrap();
    });
}

/// The script is stopped with its step, and its last reading may be the earlier one or the later.
#[test]
fn a_cancelled_job_pays_once() {
    on_each_release(|release| {
        let cluster = metered(release, &board("8xh100-sxm5", 8), "gpu:8")
            .job_acct("jobacct_gather/linux", 30)
            // srun has gone with the script.
            .allow_log("STEP .* CANCELLED|JOB .* CANCELLED|Failed to send MESSAGE_TASK_EXIT")
            .allow_log("error: slurm_(receive_msg|send_node_msg|msg_sendto|bufs_sendto)")
            .start()
            .unwrap();
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:2 --job-name=cut\n\
             echo $SLURM_JOB_GPUS\nsleep 3\nsrun sleep 600\n";
        let ids: Vec<_> = (0..4).map(|_| cluster.sbatch(script).unwrap()).collect();
        let begun = std::time::Instant::now();
        cluster
            .wait_until("four steps", Duration::from_secs(30), || {
                let said = cluster
                    .run("squeue", ["-h", "-s", "-o", "%i"])
                    .map_err(|error| error.to_string())?
                    .stdout;
                if said.lines().filter(|line| line.ends_with(".0")).count() == 4 {
                    Ok(())
                } else {
                    Err(said)
                }
            })
            .unwrap();
        // What is measured is time itself.
        std::thread::sleep(Duration::from_secs(22).saturating_sub(begun.elapsed()));
        for id in &ids {
            cluster
                .run("scancel", [id.to_string()])
                .unwrap()
                .ok()
                .unwrap();
        }
        for id in ids {
            let rows = cluster
                .wait_until("the job in sacct", Duration::from_secs(60), || {
                    let rows = sacct::of(&cluster, id);
                    let ended = |row: &Row| row.end_unix.is_finite();
                    if rows.len() == 3 && rows.iter().all(ended) {
                        Ok(rows)
                    } else {
                        Err(format!("{rows:?}"))
                    }
                })
                .unwrap();
            let both: f64 = indices(&cluster, id).into_iter().map(watts).sum();
            let (batch, step) = (sacct::step(&rows, "batch"), sacct::step(&rows, "0"));
            let told: f64 = [&batch, &step]
                .iter()
                .map(|row| row.consumed_energy_joules.unwrap_or(0.0))
                .sum();
            // The end in SlurmDBD is when the job was cancelled, its GPUs were its own until it was gone.
            let most = both * begun.elapsed().as_secs_f64();
            assert!(told <= most, "{told} J told, {most} J at most: {rows:?}");
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn gpus_that_hang_cost_no_other_its_joules() {
    on_each_release(|release| {
        let mut scenario = board("8xh100-sxm5", 8);
        for gpu in [5, 6, 7] {
            scenario.fault.push(Fault {
                device: Some(gpu),
                comm: Some("slurmd".into()),
                ..Fault::hang("nvmlDeviceGetTotalEnergyConsumption")
            });
        }
        let cluster = metered(release, &scenario, "gpu:8")
            .slurm_conf_extra("AcctGatherNodeFreq=1")
            .allow_log(
                "GPU energy counters are not read|the energy of /dev/nvidia[567] is not read",
            )
            .start()
            .unwrap();
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:1\nsleep 8\nsrun sleep 10\nsleep 1\n";
        let rows = ended(&cluster, cluster.sbatch(script).unwrap());
        assert_joules(&sacct::step(&rows, "0"), watts(0));
        cluster.stop().unwrap();
    });
}

#[test]
fn no_link_is_followed_and_nothing_of_others_removed() {
    on_each_release(|release| {
        let cluster = metered(release, &board("8xh100-sxm5", 8), "gpu:8")
            .allow_log("what ended jobs have paid is not removed|pays for this step's energy too")
            .start()
            .unwrap();
        let node = cluster.nodes()[0].clone();
        let precious = cluster.path(&node, "/var/precious").unwrap();
        std::fs::create_dir(&precious).unwrap();
        for name in ["7", "thesis.tex"] {
            std::fs::write(precious.join(name), "x").unwrap();
        }
        assert_eq!(published_map(&cluster).entries.len(), 8);
        let jobs = cluster.path(&node, "/run/sgpu/jobs").unwrap();
        std::os::unix::fs::symlink("/var/precious", jobs).unwrap();
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:1\nsrun sleep 3\nsleep 1\n";
        let _ = ended(&cluster, cluster.sbatch(script).unwrap());
        assert_eq!(std::fs::read_dir(&precious).unwrap().count(), 2);
        let log = cluster.slurmd_log(&node);
        assert!(log.contains("symbolic link"), "{log}");
        cluster.stop().unwrap();
    });
}

/// What SlurmDBD has of a job that a user works in.
fn talk(cluster: &Cluster) -> Vec<Row> {
    // salloc takes its commands from a terminal, which script makes.
    let salloc = "(echo 'sleep 5; srun sleep 8; sleep 3; exit'; sleep 25) | \
                  script -qec 'salloc --gres=gpu:2 -J talk' /dev/null";
    loop {
        let mut talk = cluster.command("sh").args(["-c", salloc]).spawn().unwrap();
        let id = suites::jobs::wait_running(cluster, "talk");
        let rows = ended(cluster, id);
        talk.wait().unwrap();
        // Where the job's end overtakes the step's, Slurm drops all of the step's figures.
        if !sacct::step(&rows, "interactive").usage.is_empty() {
            return rows;
        }
        eprintln!("Slurm dropped the figures of job {id}; once more");
    }
}

#[test]
fn an_interactive_step_pays_for_what_its_steps_do_not() {
    on_each_release(|release| {
        let cluster = metered(release, &board("8xh100-sxm5", 8), "gpu:8")
            .slurm_conf_extra("LaunchParameters=use_interactive_step")
            .allow_log("SLURM_PTY_WIN_(COL|ROW) env var not set")
            .start()
            .unwrap();
        let rows = talk(&cluster);
        let both = watts(0) + watts(1);
        let (shell, step) = (sacct::step(&rows, "interactive"), sacct::step(&rows, "0"));
        assert_joules(&step, both);
        let alone = (shell.end_unix - shell.start_unix) - (step.end_unix - step.start_unix);
        assert!(alone > 7.0, "{rows:?}");
        assert_joules_of(&shell, both, alone);
        cluster.stop().unwrap();
    });
}

#[test]
fn a_step_with_gpus_of_two_types_pays_for_both() {
    on_each_release(|release| {
        let mut scenario = board("8xl40s", 8);
        for gpu in 4..8 {
            scenario.device_mut(gpu).name = Some("NVIDIA A40".into());
        }
        let cluster = metered(release, &scenario, "gpu:l40s:4,gpu:a40:4")
            .start()
            .unwrap();
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:l40s:1,gpu:a40:1\n\
            srun sh -c 'echo $SLURM_STEP_GPUS; sleep 10'\nsleep 1\n";
        let id = cluster.sbatch(script).unwrap();
        let rows = ended(&cluster, id);
        let gpus = indices(&cluster, id);
        assert!(
            gpus.len() == 2 && gpus[0] < 4 && gpus[1] >= 4,
            "one of each type: {gpus:?}"
        );
        assert_joules(
            &sacct::step(&rows, "0"),
            gpus.iter().map(|gpu| watts(*gpu)).sum(),
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn mig_devices_pay_by_their_slices() {
    on_each_release(|release| {
        // GPU 0: 3g, 2g and two of 1g in the GPU instances 2, 3, 9 and 10. GPU 1 is whole.
        let mut scenario = board("a100-mig-mixed", 2);
        scenario.device_mut(0).power_w = Some(700.0);
        scenario.device_mut(1).power_w = Some(250.0);
        let cluster = metered(release, &scenario, "gpu:5").start().unwrap();
        let map = published_map(&cluster);
        let watts_of = |index: usize| {
            let entry = map.get(u32::try_from(index).unwrap()).unwrap();
            match entry.mig.as_ref().map(|mig| mig.gpu_instance_id) {
                Some(2) => 300.0,
                Some(3) => 200.0,
                Some(9 | 10) => 100.0,
                None => 250.0,
                other => panic!("GPU instance {other:?}"),
            }
        };
        let all: f64 = (0..5).map(watts_of).sum();
        assert!(
            (all - 950.0).abs() < 0.1,
            "all five are in the map: {map:?}"
        );
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:1 -n1\n\
            srun sh -c 'echo $SLURM_STEP_GPUS; sleep 12'\nsleep 1\n";
        let ids: Vec<_> = (0..5).map(|_| cluster.sbatch(script).unwrap()).collect();
        let mut seen = Vec::new();
        for id in ids {
            let rows = ended(&cluster, id);
            let gpus = indices(&cluster, id);
            assert_joules(&sacct::step(&rows, "0"), watts_of(gpus[0]));
            seen.extend(gpus);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        cluster.stop().unwrap();
    });
}

#[test]
fn a_step_keeps_its_gpu_when_slurmd_numbers_them_anew() {
    on_each_release(|release| {
        let mut scenario = board("8xh100-sxm5", 8);
        let cluster = may_lack_a_gpu(metered(release, &scenario, "gpu:8"))
            .allow_log("error: gpu/nvml: GPU 0|is not read: GPU 0")
            .allow_log("slurm_get_node_energy: ")
            .start()
            .unwrap();
        let node = cluster.nodes()[0].clone();
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:2 --job-name=two\n\
            srun sh -c 'echo $SLURM_STEP_GPUS; sleep 20'\nsleep 1\n";
        let id = cluster.sbatch(script).unwrap();
        assert_eq!(suites::jobs::wait_running(&cluster, "two"), id);
        std::thread::sleep(Duration::from_secs(5)); // what is measured is time itself
        // GPU 0 is the job's too: what it uses from here on is not known.
        scenario.device_mut(0).lost = Some(true);
        cluster.set_scenario(&node, &scenario).unwrap();
        cluster.restart_slurmd(&node).unwrap();
        let rows = ended(&cluster, id);
        assert_eq!(indices(&cluster, id), [0, 1]);
        let step = sacct::step(&rows, "0");
        let seconds = step.end_unix - step.start_unix;
        let told = step.consumed_energy_joules.unwrap();
        let own = watts(1) * seconds;
        // GPU 0 for five seconds or so; GPU 2, which stands at index 1 now, for none.
        let most = own + watts(0) * 12.0 + watts(1) * 2.5;
        assert!(
            told > own - watts(1) * 2.5 && told < most,
            "{told} J, between {own} and {most} expected"
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn an_nvml_that_starts_slowly_costs_a_step_seconds_only() {
    on_each_release(|release| {
        let mut scenario = board("8xh100-sxm5", 8);
        scenario.init_latency_us = Some(2_500_000);
        let cluster = metered(release, &scenario, "gpu:8")
            .allow_log(
                "GPU energy counters are not read|GPU usage of the step's processes is not known",
            )
            .start()
            .unwrap();
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:1\nsrun sleep 15\nsleep 1\n";
        let rows = ended(&cluster, cluster.sbatch(script).unwrap());
        let step = sacct::step(&rows, "0");
        let told = step.consumed_energy_joules.unwrap();
        assert!(
            told > watts(0) * 10.0 && told < watts(0) * 17.5,
            "{told} J: {step:?}"
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn calls_that_fail_once_silence_no_gpu() {
    on_each_release(|release| {
        let mut scenario = board("8xh100-sxm5", 8);
        for (gpu, call) in [
            (0, "nvmlDeviceGetTotalEnergyConsumption"),
            (1, "nvmlDeviceGetMinorNumber"),
        ] {
            scenario.fault.push(Fault {
                device: Some(gpu),
                comm: Some("slurmd".into()),
                // Discovery has its turn first.
                after: (gpu == 1).then_some(1),
                times: Some(2),
                ..Fault::error(call, Status::UNKNOWN)
            });
        }
        let cluster = metered(release, &scenario, "gpu:8")
            .allow_log("error: acct_gather_energy/sgpu: the energy of /dev/nvidia[01] is not read")
            .start()
            .unwrap();
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:2\nsrun sleep 14\nsleep 1\n";
        let rows = ended(&cluster, cluster.sbatch(script).unwrap());
        let step = sacct::step(&rows, "0");
        let told = step.consumed_energy_joules.unwrap();
        let both = watts(0) + watts(1);
        assert!(
            told > both * 7.0 && told < both * 16.5,
            "{told} J: {step:?}"
        );
        let log = cluster.slurmd_log(&cluster.nodes()[0]);
        for line in [
            "the energy of /dev/nvidia0 is not read: GPU 0",
            "the energy of /dev/nvidia0 is read again",
            "the energy of /dev/nvidia1 is read again",
        ] {
            assert!(log.contains(line), "no {line:?} in {log}");
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn many_steps_that_start_together_are_all_metered() {
    on_each_release(|release| {
        let mut scenario = board("8xh100-sxm5", 8);
        // A reading of the node takes most of a second.
        scenario
            .latency
            .insert("nvmlDeviceGetTotalEnergyConsumption".into(), 90_000);
        let cluster = metered(release, &scenario, "gpu:8")
            // 24.11 refuses more than ten requests at a time, and says so.
            .allow_log("_rpc_acct_gather_energy: Too many pending requests")
            .allow_log("slurm_get_node_energy: ")
            .start()
            .unwrap();
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:8 -n1\n\
            for step in $(seq 24); do srun --overlap -n1 --gres=gpu:8 sleep 12 & done; wait\nsleep 1\n";
        let rows = ended(&cluster, cluster.sbatch(script).unwrap());
        let all: f64 = (0..8).map(watts).sum();
        for step in 0..24 {
            let row = sacct::step(&rows, &step.to_string());
            let told = row.consumed_energy_joules.unwrap_or(0.0);
            assert!(told > all * 8.0, "step {step}: {told} J: {row:?}");
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn without_job_accounting_the_log_says_why_steps_get_no_joules() {
    on_each_release(|release| {
        let cluster = Cluster::builder(release)
            .scenario(board("8xh100-sxm5", 8))
            .plugins(Plugins::Ours)
            .gres_conf("AutoDetect=nvml")
            .node_gres("gpu:8")
            .slurm_conf_extra("AcctGatherEnergyType=acct_gather_energy/sgpu")
            .allow_log("error: acct_gather_energy/sgpu: JobAcctGatherType is not set")
            .start()
            .unwrap();
        let log = cluster.slurmd_log(&cluster.nodes()[0]);
        assert!(
            log.contains("JobAcctGatherType=jobacct_gather/cgroup"),
            "{log}"
        );
        cluster.stop().unwrap();
    });
}
