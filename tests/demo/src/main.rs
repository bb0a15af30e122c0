//! Boots a real Slurm cluster in a folder and shows what sgpu does there, a chapter at a time.
//! `cargo xtask demo` builds what it needs and calls it.
#![forbid(unsafe_code)]

mod accounts;
mod discovery;
mod jobs;
mod show;
mod training;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Parser;
use fake_nvml::Scenario;
use harness::{Cluster, Error, Plugins, Release};

/// Shows what sgpu does on a real Slurm cluster of four nodes with eight fake H100 each.
#[derive(Parser)]
struct Arguments {
    /// The Slurm release, 22.05 or 24.11.
    #[arg(long, default_value = "24.11")]
    slurm: String,
    /// End when standard input does: whoever started the demo holds its other end.
    #[arg(long, hide = true)]
    lifeline: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.lifeline {
        std::thread::spawn(end_with_input);
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{error:#}");
            eprintln!("\nerror: {text}");
            if let Some(cause) = show::cause(&text) {
                eprintln!("\nthe cause, told above with the daemons' logs: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Ends the program with its standard input. The cluster ends with us: the harness sees to that however
/// a program ends.
fn end_with_input() {
    let _read = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    eprintln!("\nwho started the demo is gone: it ends");
    std::process::exit(130);
}

fn run(arguments: &Arguments) -> Result<()> {
    let Some(release) = Release::FULL
        .into_iter()
        .find(|release| release.name() == arguments.slurm)
    else {
        bail!(
            "--slurm {}: this demo runs on 22.05 and 24.11",
            arguments.slurm
        );
    };
    let begun = Instant::now();
    show::chapter("A cluster in a folder");
    println!("Booting MariaDB, slurmdbd, slurmctld and four slurmd of Slurm {release} …");
    let cluster = boot(release)?;
    println!(
        "Slurm {} is up after {:.1} s: nodes {}",
        cluster.version(),
        begun.elapsed().as_secs_f64(),
        cluster.nodes().join(", ")
    );
    let told = tell(&cluster);
    show::chapter("The end");
    println!("Stopping the cluster …");
    let stopped = cluster.stop();
    if let (Err(_), Err(Error::Teardown(report))) = (&told, &stopped) {
        // What failed first is the error, and has the logs; this may tell why.
        for fault in report.faults.iter().take(10) {
            eprintln!("- {fault}");
        }
    }
    told?;
    stopped?;
    println!(
        "Nothing is left of it. The demo took {:.0} s.",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn tell(cluster: &Cluster) -> Result<()> {
    discovery::tell(cluster)?;
    let ran = jobs::tell(cluster)?;
    accounts::tell(cluster, &ran)?;
    training::tell(cluster)
}

/// What a GPU of the demo draws, by its index: the last two of each node are idle.
fn watts(gpu: usize) -> f64 {
    if gpu < 6 { 520.0 } else { 95.0 }
}

fn boot(release: Release) -> Result<Cluster> {
    let mut scenario = Scenario::board("8xh100-sxm5");
    for gpu in 0..8 {
        scenario.device_mut(gpu).power_w = Some(watts(gpu));
    }
    Ok(Cluster::builder(release)
        .nodes(4)
        .node_prefix("gpu")
        .scenario(scenario)
        .plugins(Plugins::Ours)
        .gres_conf("AutoDetect=nvml")
        .node_gres("gpu:h100:8")
        .etc_slurm("plugstack.conf", training::PLUGSTACK)
        .accounting(true)
        .job_acct("jobacct_gather/linux", 2)
        .slurm_conf_extra("AcctGatherEnergyType=acct_gather_energy/sgpu")
        // 22.05 says so where no GPU of a job is close to this machine's few CPUs, on which tasks run whichever
        // cores their job has; the demo explains it then.
        .allow_log("Bind request gpu:closest does not specify any devices")
        .start()?)
}
