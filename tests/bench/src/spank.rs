//! What the SPANK plugins cost a step: `srun -n 64 true` on one node, with and without them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fake_nvml::Scenario;
use harness::{Cluster, Plugins, Release};

use crate::median::{median, upper_bound};

const TASKS: u32 = 64;
/// How many steps the hooks are timed in.
const STEPS: usize = 20;
/// Where the bench program is inside.
const INSIDE: &str = "/opt/sgpu-bench";
const PLUGSTACK: &str = "optional /opt/sgpu/plugins/spank_sgpu_bind.so\n\
    optional /opt/sgpu/plugins/spank_sgpu_env.so\n\
    optional /opt/sgpu/plugins/spank_sgpu_ckpt.so\n";
const OPTIONS: &str = "--dist-env=torch --gpu-numa-bind=closest --checkpoint-signal=USR1@60";

pub(crate) fn run(pairs: usize) -> Result<()> {
    for release in Release::FULL {
        for options in ["", OPTIONS] {
            let Measured { ratios, hooks } = measure(release, pairs, options)?;
            let (middle, bound) = (median(ratios.clone()), upper_bound(&ratios));
            let what = if options.is_empty() {
                "options off"
            } else {
                "options on"
            };
            println!(
                "srun -n {TASKS} true on {release}, {what}, {pairs} pairs: median ratio {middle:.3} of with to \
                 without the plugins, at most {bound:.3} with 95 % confidence"
            );
            let name = match (release, options.is_empty()) {
                (Release::Slurm24_11, false) => "ratio",
                (Release::Slurm24_11, true) => "ratio_off",
                (_, false) => "ratio_22_05",
                (_, true) => "ratio_off_22_05",
            };
            println!("figure: spank.{name} {bound:.3} with/without, upper bound");
            if !options.is_empty() {
                show_hooks(release, hooks);
            }
        }
    }
    Ok(())
}

struct Measured {
    /// Of the pairs' times.
    ratios: Vec<f64>,
    /// Microseconds that the tasks' own hooks took, by plugin.
    hooks: BTreeMap<String, Vec<f64>>,
}

/// Each task calls one hook of each plugin, as its user.
fn show_hooks(release: Release, hooks: BTreeMap<String, Vec<f64>>) {
    let mut sum = 0.0;
    for (plugin, times) in hooks {
        let middle = median(times) / 1e3;
        println!("{plugin}'s hook in a task on {release}: {middle:.3} ms");
        sum += middle;
    }
    let name = if release == Release::Slurm24_11 {
        "hooks"
    } else {
        "hooks_22_05"
    };
    println!("figure: spank.{name} {sum:.3} ms/task");
}

/// What the plugins say at debug2, which root may ask for, of steps of one task: among many on a few cores a
/// hook's time is mostly other tasks'.
fn hooks(cluster: &Cluster, node: &str, options: &str) -> Result<BTreeMap<String, Vec<f64>>> {
    let mut hooks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..STEPS {
        let said = cluster
            .command("srun")
            .args(["--slurmd-debug=debug2", "--gpus-per-node=8"])
            .args(options.split_whitespace())
            .args(["true"])
            .on(node)
            .run()?
            .ok()?;
        for line in said.stderr.lines() {
            let Some((before, took)) = line.split_once(": slurm_spank_task_init took ") else {
                continue;
            };
            let plugin = before.rsplit(' ').next().unwrap_or_default();
            let microseconds = took.trim_end_matches(" us").parse()?;
            hooks
                .entry(plugin.to_owned())
                .or_default()
                .push(microseconds);
        }
    }
    Ok(hooks)
}

/// A cluster's pairs and hooks.
fn measure(release: Release, pairs: usize, options: &str) -> Result<Measured> {
    let cluster = Cluster::builder(release)
        .scenario(Scenario::board("8xh100-sxm5"))
        .plugins(Plugins::Ours)
        .gres_conf("AutoDetect=nvml")
        .node_gres("gpu:8")
        .etc_slurm("plugstack.conf", "include /opt/plugstack.now\n")
        .start()?;
    // srun and slurmstepd read the file each time; both are on the node.
    let node = cluster.nodes().first().context("a node")?;
    let at = |path: &str| cluster.path(node, path);
    std::fs::copy(std::env::current_exe()?, at(INSIDE)?)?;
    std::fs::write(at("/opt/plugstack.ours")?, PLUGSTACK)?;
    std::fs::write(at("/opt/plugstack.none")?, "")?;
    let script = |name: &str, options: &str| -> Result<String> {
        let path = format!("/opt/{name}.sh");
        let text = format!(
            "#!/bin/sh\ncp /opt/plugstack.{name} /opt/plugstack.now\n\
             exec srun -n {TASKS} --gpus-per-node=8 {options} true\n"
        );
        std::fs::write(at(&path)?, text)?;
        Ok(format!("/bin/sh {path}"))
    };
    let said = cluster
        .command(INSIDE)
        .args(["pairs", "--pairs", &pairs.to_string()])
        .args([script("ours", options)?, script("none", "")?])
        .on(node)
        .timeout(Duration::from_secs(900))
        .run()?
        .ok()?;
    let ratios: Vec<f64> = said
        .stdout
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(with, without)| {
            Some(with.parse::<f64>().ok()? / without.parse::<f64>().ok()?)
        })
        .collect();
    ensure!(
        ratios.len() == pairs,
        "{} of {pairs} pairs came",
        ratios.len()
    );
    std::fs::copy(at("/opt/plugstack.ours")?, at("/opt/plugstack.now")?)?;
    let hooks = hooks(&cluster, node, options)?;
    cluster.stop().context("stopping the cluster")?;
    Ok(Measured { ratios, hooks })
}
