//! `slurmd -G`, whole process: our driver against Slurm's own on the same fake NVML.
//!
//! The fake answers at once unless told otherwise, which no real NVML does: there, initialisation alone
//! takes longer than all of `slurmd -G` here. So the figure is taken with a latency that is still far
//! below a real one's and named in the output; the ratio with none is printed beside it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fake_nvml::Scenario;
use harness::{Cluster, Plugins, Release};

use crate::median::median;

/// `nvmlInit`, and every other call, in µs.
const LATENCIES: [(u64, u64); 2] = [(20_000, 5), (0, 0)];
/// Where the bench program is inside.
const INSIDE: &str = "/opt/sgpu-bench";

pub(crate) fn run(pairs: usize) -> Result<()> {
    for release in Release::FULL {
        for (init_us, call_us) in LATENCIES {
            let (ours, stock, ratio) = measure(release, pairs, init_us, call_us)?;
            println!(
                "slurmd -G on {release}, 8 H100, {pairs} pairs, fake NVML with {init_us} µs for init and \
                 {call_us} µs a call: ours {ours:.2} ms, Slurm's {stock:.2} ms, median ratio {ratio:.3}"
            );
            let of = match (release, init_us) {
                (Release::Slurm24_11, 0) => "ratio_instant_nvml",
                (Release::Slurm24_11, _) => "ratio",
                (_, 0) => "ratio_instant_nvml_22_05",
                (..) => "ratio_22_05",
            };
            println!("figure: discovery.{of} {ratio:.3} ours/stock");
        }
    }
    Ok(())
}

/// Median milliseconds of ours and of Slurm's, and the median of the pairs' ratios.
fn measure(release: Release, pairs: usize, init_us: u64, call_us: u64) -> Result<(f64, f64, f64)> {
    let mut scenario = Scenario::board("8xh100-sxm5");
    scenario.init_latency_us = Some(init_us);
    scenario.latency_us = Some(call_us);
    let cluster = Cluster::builder(release)
        .scenario(scenario)
        .plugins(Plugins::Ours)
        .gres_conf("AutoDetect=nvml")
        .node_gres("gpu:h100:8")
        .dry()?;
    let node = cluster.nodes().first().context("a node")?;
    let at = |path: &str| cluster.path(node, path);
    std::fs::copy(std::env::current_exe()?, at(INSIDE)?)?;

    // The same slurm.conf with Slurm's own driver in front.
    let conf = std::fs::read_to_string(at("/etc/slurm/slurm.conf")?)?;
    std::fs::create_dir_all(at("/opt/stock")?)?;
    std::fs::copy(
        harness::stock_plugin(cluster.version())?,
        at("/opt/stock/gpu_nvml.so")?,
    )?;
    let stock = conf
        .lines()
        .map(|line| match line.strip_prefix("PluginDir=") {
            Some(dirs) => {
                let (_, theirs) = dirs.split_once(':').unwrap_or((dirs, dirs));
                format!("PluginDir=/opt/stock:{theirs}")
            }
            None => line.to_owned(),
        })
        .collect::<Vec<_>>()
        .join("\n");
    std::fs::write(at("/etc/slurm/stock.conf")?, stock)?;

    let slurmd = |conf: &str| format!("/usr/sbin/slurmd -G -N {node} -f /etc/slurm/{conf}");
    for conf in ["slurm.conf", "stock.conf"] {
        let said = cluster
            .as_slurmd(node, "/usr/sbin/slurmd")?
            .args(["-G", "-N", node, "-f", &format!("/etc/slurm/{conf}")])
            .run()?
            .ok()?;
        let whole = |line: &&str| line.contains("Gres Name=gpu") && line.contains("Cores=");
        let gpus = said.stderr.lines().filter(whole).count();
        ensure!(
            gpus == 8,
            "slurmd -G with {conf} lists {gpus} GPUs with cores: {said}"
        );
    }
    let said = cluster
        .as_slurmd(node, INSIDE)?
        .args([
            "pairs",
            "--pairs",
            &pairs.to_string(),
            &slurmd("slurm.conf"),
            &slurmd("stock.conf"),
        ])
        .timeout(Duration::from_secs(300))
        .run()?
        .ok()?;
    let times: Vec<(f64, f64)> = said
        .stdout
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
        .collect();
    cluster.stop()?;
    Ok((
        median(times.iter().map(|(ours, _)| *ours).collect()),
        median(times.iter().map(|(_, stock)| *stock).collect()),
        median(times.iter().map(|(ours, stock)| ours / stock).collect()),
    ))
}
