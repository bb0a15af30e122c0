//! What scheduling policies make of a trace: on a real slurmctld, whose clock runs fast.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use harness::Release;
use replay::chart::{self, Line};
use replay::metrics::figures;
use replay::policy::{Policy, stock};
use replay::runs::Went;
use replay::table::{self, Row};
use replay::trust::Pace;
use replay::workload::{Job, Mix, Shape};
use replay::{site, trace, workload};

/// `--mix`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MixName {
    /// The trace's jobs, more of them with several GPUs.
    Trace,
    /// A quarter of the GPU-hours in jobs of a quarter of the cluster or more.
    Large,
    /// Long trainings that can be preempted, and bursts of short urgent jobs.
    Bursts,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which jobs
    #[arg(long, value_enum, default_value_t = MixName::Trace)]
    mix: MixName,
    /// A trace: Philly's or openb's, or what `sacct -a -P -X -o
    /// JobID,Submit,Start,End,Timelimit,AllocTRES,Account` prints [default: tests/traces/philly_jobs.csv]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// What is made up is drawn from this: may be repeated, a replay each
    #[arg(long, default_values_t = [1_u64])]
    seed: Vec<u64>,
    /// A policy, by the name that the table has; may be repeated [default: all]
    #[arg(long)]
    policy: Vec<String>,
    /// How many jobs
    #[arg(long, default_value_t = 400)]
    jobs: u32,
    /// How many nodes, of eight GPUs each
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    nodes: u32,
    /// GPU-seconds asked for, by those that there are
    #[arg(long, default_value_t = 1.1)]
    load: f64,
    /// The longest run, in minutes; longer ones are cut
    #[arg(long, default_value_t = 60)]
    longest: u64,
    /// How many seconds of the cluster pass in one of the machine's
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    speed: u32,
    /// Show the figures of a slurmctld that could not keep up, marked, instead of refusing them
    #[arg(long)]
    keep_slow: bool,
    /// Where table, CSV, chart, jobs, slurm.conf and sdiag are written
    #[arg(long, value_name = "FOLDER", default_value = "target/policy")]
    out: PathBuf,
}

const RELEASE: Release = Release::Slurm24_11;

pub(crate) fn run(args: &Args) -> Result<()> {
    let policies = chosen(&args.policy)?;
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/philly_jobs.csv");
    let trace = trace::read(args.trace.as_deref().unwrap_or(&usual))?;
    fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let mut rows = Vec::new();
    for seed in &args.seed {
        let shape = Shape {
            nodes: args.nodes,
            gpus_per_node: 8,
            jobs: usize::try_from(args.jobs)?,
            load: args.load,
            mix: match args.mix {
                MixName::Trace => Mix::Trace,
                MixName::Large => Mix::Large,
                MixName::Bursts => Mix::Bursts,
            },
            longest_s: args.longest * 60,
            seed: *seed,
        };
        let jobs = workload::jobs(&trace, &shape)?;
        write(&args.out.join(format!("jobs-{seed}.csv")), &listed(&jobs))?;
        let mut all = Vec::new();
        for policy in &policies {
            let (row, went) = one(args, policy, &shape, &jobs)?;
            rows.push(row);
            all.push((policy.name, went));
            // What there is, is there if the next one fails.
            write(&args.out.join("figures.csv"), &table::csv(&rows))?;
            write(&args.out.join("table.txt"), &table::table(&rows))?;
        }
        let lines: Vec<Line<'_>> = all
            .iter()
            .map(|(policy, went)| Line { policy, went })
            .collect();
        let svg = chart::svg(&jobs, &shape, &lines)?;
        write(&args.out.join(format!("chart-{seed}.svg")), &svg)?;
    }
    println!("{}", table::table(&rows));
    println!("written to {}", args.out.display());
    for row in &rows {
        let name = format!("{}.{}", row.policy, row.seed);
        println!(
            "figure: policy.lost_gpu_hours.{name} {:.2} h",
            row.figures.lost_gpu_hours
        );
        println!(
            "figure: policy.wait_mean.{name} {:.0} s",
            row.figures.wait.mean
        );
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<Policy>> {
    let all = stock();
    if names.is_empty() {
        return Ok(all);
    }
    names
        .iter()
        .map(|name| {
            let known = all.iter().map(|policy| policy.name).collect::<Vec<_>>();
            all.iter()
                .find(|policy| policy.name == name)
                .cloned()
                .with_context(|| format!("no policy {name:?}; there are {}", known.join(", ")))
        })
        .collect()
}

/// A policy's replay.
fn one(args: &Args, policy: &Policy, shape: &Shape, jobs: &[Job]) -> Result<(Row, Vec<Went>)> {
    let title = format!("{} ({}), seed {}", policy.name, policy.what, shape.seed);
    let tell = |how_far: &str| {
        eprint!("\r\x1b[K{title}: {how_far}");
        let _ = std::io::stderr().flush();
    };
    let replayed = site::replay(RELEASE, policy, shape, jobs, args.speed, &tell)?;
    eprintln!();
    let at = |what: &str| {
        args.out
            .join(format!("{}-{}-{what}", policy.name, shape.seed))
    };
    write(&at("slurm.conf"), &replayed.slurm_conf)?;
    write(&at("sdiag.txt"), &replayed.sdiag)?;
    let pace = Pace::of(&replayed)?;
    let kept_up = pace.check().with_context(|| title.clone());
    let mut name = policy.name.to_owned();
    if args.keep_slow && kept_up.is_err() {
        name.push('!');
    } else {
        kept_up?;
    }
    let row = Row {
        policy: name,
        seed: shape.seed,
        figures: figures(jobs, &replayed.went, shape),
        pace,
    };
    Ok((row, replayed.went))
}

/// The jobs, as they were made up.
fn listed(jobs: &[Job]) -> String {
    let mut text = String::from("submit_s,run_s,limit_minutes,gpus,account,qos,checkpoint_s\n");
    for job in jobs {
        let cells = [
            job.submit_s.to_string(),
            job.run_s.to_string(),
            job.limit_minutes.to_string(),
            job.gpus.to_string(),
            job.account.clone(),
            job.class.qos().to_owned(),
            job.checkpoint_s.map_or_else(String::new, |s| s.to_string()),
        ];
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}
