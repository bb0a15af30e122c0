//! GPU memory and utilisation of a step's processes in SlurmDBD (24.11; 22.05 has no such hook).

use fake_nvml::Scenario;
use fake_nvml::scenario::Process;
use harness::{Cluster, Plugins, Release};
use suites::{jobs, sacct};

/// Each process called `sgpu-train` uses GPUs 0 and 1.
fn scenario() -> Scenario {
    let mut scenario = Scenario::board("8xh100-sxm5");
    for (device, gpu_memory_mib, sm_util) in [(0, 30_000, 61), (1, 12_345, 20)] {
        scenario.process.push(Process {
            device,
            comm: Some("sgpu-train".into()),
            gpu_memory_mib,
            sm_util,
            ..Process::default()
        });
    }
    scenario
}

/// A program called `sgpu-train` that sleeps.
const TRAIN: &str = "cp /bin/sleep /tmp/sgpu-train && /tmp/sgpu-train 12";

fn usage(tres: &str) -> sacct::Row {
    usage_of(scenario(), tres)
}

fn usage_of(scenario: Scenario, tres: &str) -> sacct::Row {
    let cluster = Cluster::builder(Release::Slurm24_11)
        .scenario(scenario)
        .allow_log("GPU usage of the step's processes is not known: nvmlInit")
        .plugins(Plugins::Ours)
        .gres_conf("AutoDetect=nvml")
        .node_gres("gpu:8")
        .accounting(true)
        .job_acct("jobacct_gather/linux", 2)
        .slurm_conf_extra(&format!("AccountingStorageTRES={tres}"))
        .start()
        .unwrap();
    let mut job = cluster
        .command("srun")
        .args(["--gres=gpu:2", "-J", "train", "sh", "-c", TRAIN])
        .spawn()
        .unwrap();
    let id = jobs::wait_running(&cluster, "train");
    assert!(job.wait().unwrap().success());
    let row = sacct::step(&sacct::wait(&cluster, id, "COMPLETED"), "0");
    cluster.stop().unwrap();
    row
}

#[test]
fn memory_and_utilisation_reach_slurmdbd_24_11() {
    if !suites::is_under_test(Release::Slurm24_11) {
        return;
    }
    let row = usage("gres/gpu,gres/gpumem,gres/gpuutil");
    // 42,345 MiB; sacct rounds to units of 1024.
    assert_eq!(
        row.usage.get("gres/gpumem").map(String::as_str),
        Some("42345M"),
        "{row:?}"
    );
    assert_eq!(
        row.usage.get("gres/gpuutil").map(String::as_str),
        Some("81"),
        "{row:?}"
    );
}

/// NVML is opened anew at each poll, which waits for a second only: what comes too late counts at the next.
#[test]
fn an_nvml_that_starts_slowly_is_a_poll_late_24_11() {
    if !suites::is_under_test(Release::Slurm24_11) {
        return;
    }
    let mut scenario = scenario();
    scenario.init_latency_us = Some(1_500_000);
    let row = usage_of(scenario, "gres/gpu,gres/gpumem,gres/gpuutil");
    assert_eq!(
        row.usage.get("gres/gpumem").map(String::as_str),
        Some("42345M"),
        "{row:?}"
    );
}

#[test]
fn either_may_be_tracked_alone_24_11() {
    if !suites::is_under_test(Release::Slurm24_11) {
        return;
    }
    // With gres/gpu among them Slurm adds both by itself.
    let memory = usage("gres/gpumem");
    assert_eq!(
        memory.usage.get("gres/gpumem").map(String::as_str),
        Some("42345M"),
        "{memory:?}"
    );
    assert_eq!(memory.usage.get("gres/gpuutil"), None);
    let utilisation = usage("gres/gpuutil");
    assert_eq!(
        utilisation.usage.get("gres/gpuutil").map(String::as_str),
        Some("81")
    );
    assert_eq!(utilisation.usage.get("gres/gpumem"), None);
}
