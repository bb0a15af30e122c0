//! `cargo xtask test`: every test, with what it needs made first.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::build::{self, How, Target};
use crate::interrupt;
use crate::paths::Paths;
use crate::release::{self, Release};
use crate::run::Cmd;
use crate::setup;
use crate::step::{Progress, seconds};
use crate::sudo;

/// Run every test: those without Slurm, and those on real Slurm daemons.
///
/// Sets up and builds first what is missing. Daemons run in Debian roots, never on the host.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask test                    everything; what CI runs
  cargo xtask test --fast             without daemons: no setup, no plugins
  cargo xtask test oracle             one suite on daemons
  cargo xtask test --slurm 24.11 mig  tests on 24.11's daemons whose name has `mig`")]
pub(crate) struct Args {
    /// Run only the suite of this name (a file of tests/suites/tests), or tests whose name contains it
    filter: Option<String>,
    /// A Slurm release to test on, may be repeated [default: 22.05 and 24.11]
    #[arg(long, value_name = "RELEASE", value_parser = release::parser())]
    slurm: Vec<&'static Release>,
    /// Only what needs no Slurm
    #[arg(long, conflicts_with = "slurm")]
    fast: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> Result<()> {
    let paths = Paths::find()?;
    let mut stages = Stages::default();
    let suite = args.filter.as_deref().filter(|name| {
        let file = paths
            .workspace
            .join("tests/suites/tests")
            .join(name)
            .with_extension("rs");
        !name.contains(['/', '.']) && file.is_file()
    });
    if suite.is_none() {
        some_test_matches(&paths, args)?;
    }
    if !args.fast {
        sudo::ready("to make clusters")?;
        let releases = release::chosen(&args.slurm);
        stages.run("setup and build", || {
            prepare(&paths, &releases, &[false, true])
        })?;
    }
    if suite.is_none() {
        stages.run("tests without Slurm", || passes(cargo_test(&paths, args)))?;
    }
    if !args.fast {
        let names: Vec<&str> = release::chosen(&args.slurm)
            .iter()
            .map(|release| release.name)
            .collect();
        let tests = match suite {
            Some(suite) => build::cargo(&paths).args(["test", "-p", "suites", "--test", suite]),
            None => cargo_test(&paths, args).args(["-p", "harness", "-p", "suites"]),
        };
        let suites = sudo::programs_as_root(tests)
            .env("SGPU_CACHE", &paths.cache)
            .env("SGPU_DIST", paths.dist())
            .env("SGPU_SLURM", names.join(" "));
        stages.run("tests on daemons", || passes(suites))?;
    }
    eprintln!("\ntests passed: {}", stages.summary());
    Ok(())
}

/// Sets up and builds what tests, demo and benches need: the fake NVML and each release's plugins, in
/// the builds that `faults` lists (`true`: the one that panics in every hook).
pub(crate) fn prepare(paths: &Paths, releases: &[&'static Release], faults: &[bool]) -> Result<()> {
    let ready = setup::ensure(paths, releases)?;
    let progress = Progress::new(1 + faults.len() * ready.len(), paths.logs());
    build::fake_nvml(paths, &progress)?;
    for one in ready.iter().filter(|one| one.tree.is_some()) {
        let target = Target::of(one)?;
        for fault in faults {
            let how = How {
                debug: false,
                fault: *fault,
            };
            build::plugins_for(paths, &target, how, &progress)?;
        }
    }
    Ok(())
}

/// Refuses a filter that no test's name contains: a mistyped one would pass.
fn some_test_matches(paths: &Paths, args: &Args) -> Result<()> {
    let Some(filter) = &args.filter else {
        return Ok(());
    };
    let mut listed = cargo_test(paths, args).args(["--", "--list"]).output()?;
    if !args.fast {
        let daemons = cargo_test(paths, args).args(["-p", "harness", "-p", "suites"]);
        listed += &daemons.args(["--", "--list"]).output()?;
    }
    if !listed.lines().any(|line| line.ends_with(": test")) {
        bail!(
            "no test's name contains {filter:?}, and no suite is called so; the suites are the files in \
             tests/suites/tests"
        );
    }
    Ok(())
}

fn cargo_test(paths: &Paths, args: &Args) -> Cmd {
    // All tests run, so that one failure does not hide another.
    build::cargo(paths)
        .args(["test", "--no-fail-fast"])
        .args(&args.filter)
}

fn passes(cmd: Cmd) -> Result<()> {
    let status = cmd.run_shown()?;
    if !status.success() {
        interrupt::check()?;
        bail!("tests failed ({status}): {cmd}");
    }
    Ok(())
}

/// The stages so far, with their times.
#[derive(Debug, Default)]
struct Stages {
    done: Vec<String>,
}

impl Stages {
    fn run<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        eprintln!("== {name}");
        let outcome = work();
        let word = if outcome.is_ok() { "" } else { " (failed)" };
        self.done.push(format!("{name} {}{word}", seconds(begun)));
        if outcome.is_err() {
            eprintln!("\ntests failed: {}", self.summary());
        }
        outcome
    }

    fn summary(&self) -> String {
        self.done.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_each_stage() {
        let mut stages = Stages::default();
        stages.run("one", || Ok(())).unwrap();
        assert!(stages.run("two", || -> Result<()> { bail!("no") }).is_err());
        let summary = stages.summary();
        assert!(
            summary.starts_with("one 0.0 s, two 0.0 s (failed)"),
            "{summary}"
        );
    }
}
