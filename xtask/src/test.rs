//! `cargo xtask test`: every test, with what it needs made first. Which ones those are is `selection`'s.

use std::process::ExitStatus;
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::build::{self, How, Target};
use crate::guest;
use crate::interrupt;
use crate::layer;
use crate::paths::Paths;
use crate::release::{self, Release, Support};
use crate::run::Cmd;
use crate::selection::{
    self, FAULTY, FRAMEWORKS, GUEST, LOADER, PYPI, Selected, cargo_test, is_named, not_run, skips,
};
use crate::setup::{self, Ready};
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
  cargo xtask test frameworks_pypi    training frameworks from PyPI, which is left out otherwise
  cargo xtask test mig                tests whose name has `mig`; builds and runs their programs only
  cargo xtask test --slurm 24.11      all, on 24.11's daemons alone; what is of 22.05 alone is left out
  cargo xtask test --slurm 26.05      Debian testing: the harness and the SPANK plugins on its daemons

Without --slurm, a Debian testing that cannot be set up (its archive changes every day) fails nothing: the
other releases are tested, and the last line says that it was not.")]
pub(crate) struct Args {
    /// Run only the suite of this name (a file of tests/suites/tests), or tests whose name contains it
    filter: Option<String>,
    /// A Slurm release or its root's full version to test on, may be repeated [default: all]
    #[arg(long, value_name = "RELEASE", value_parser = release::parser())]
    slurm: Vec<&'static Release>,
    /// Only what needs no Slurm
    #[arg(long, conflicts_with = "slurm")]
    fast: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> Result<()> {
    let paths = Paths::find()?;
    let mut releases = release::tested(&args.slurm);
    let mut missing = Vec::new();
    let mut stages = Stages::default();
    let selected = match &args.filter {
        None => Selected::all(args.fast, &releases),
        Some(name) if selection::is_suite(&paths, name) => {
            Selected::suite(args.fast, &releases, name)?
        }
        Some(filter) => stages.run("finding tests", || {
            Selected::matching(&paths, args.fast, &releases, filter)
        })?,
    };
    if !selected.daemons.is_empty() {
        sudo::ready("to make clusters")?;
        stages.run("setup and build", || {
            let kinds: &[bool] = if FAULTY.iter().any(|suite| selected.runs(suite)) {
                &[false, true]
            } else {
                &[false]
            };
            let ready = if args.slurm.is_empty() {
                let (ready, not) = setup::ensure_available(&paths, &releases)?;
                missing = not;
                ready
            } else {
                setup::ensure(&paths, &releases)?
            };
            releases = ready.iter().map(|one| one.release).collect();
            build_all(&paths, &ready, kinds)?;
            prepare_suites(&paths, &ready, &selected)
        })?;
    }
    if !selected.plain.is_empty() {
        stages.run("tests without Slurm", || {
            let cmds = selected.plain.iter();
            let cmds = cmds.map(|words| cargo_test(&paths, words).args(&selected.filter));
            all_pass(cmds.collect())
        })?;
    }
    if !selected.daemons.is_empty() {
        for line in not_run(&releases) {
            eprintln!("{line}");
        }
        for missing in &missing {
            eprintln!("not run: {}: {:#}", without(missing.release), missing.why);
        }
        let names: Vec<&str> = releases.iter().map(|release| release.name).collect();
        stages.run("tests on daemons", || {
            let run = if selected.has_long {
                all_pass_at_once
            } else {
                all_pass
            };
            let cmds = selected.daemons.iter().map(|words| {
                let tests = cargo_test(&paths, words)
                    .args(&selected.filter)
                    .arg("--")
                    .args(skips(&releases))
                    .args(selected.left_to_another(words))
                    .args(is_named(words, PYPI).then_some("--include-ignored"));
                sudo::programs_as_root(tests)
                    .env("SGPU_CACHE", &paths.cache)
                    .env("SGPU_DIST", paths.dist())
                    .env("SGPU_SLURM", names.join(" "))
            });
            run(cmds.collect())
        })?;
    }
    eprintln!("\ntests passed: {}", stages.summary());
    for missing in &missing {
        eprintln!(
            "but not {}, which could not be set up: see above",
            without(missing.release)
        );
    }
    Ok(())
}

/// What a person is told of a release that was not to be had.
fn without(release: &Release) -> String {
    format!(
        "the tests on Slurm {} of Debian {}",
        release.name, release.suite
    )
}

/// Sets up and builds what tests, demo and benches need: the fake NVML and each release's plugins, in
/// the builds that `faults` lists (`true`: the one that panics in every hook).
pub(crate) fn prepare(paths: &Paths, releases: &[&'static Release], faults: &[bool]) -> Result<()> {
    build_all(paths, &setup::ensure(paths, releases)?, faults)
}

fn build_all(paths: &Paths, ready: &[Ready], faults: &[bool]) -> Result<()> {
    let progress = Progress::new(1 + faults.len() * ready.len(), paths.logs());
    build::fake_nvml(paths, &progress)?;
    for one in ready {
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

/// Makes what single suites need, if they are run: roots with frameworks, a kernel for a guest, the program that
/// opens plugins.
fn prepare_suites(paths: &Paths, ready: &[Ready], selected: &Selected) -> Result<()> {
    let of = |wanted: &dyn Fn(&Release) -> bool| -> Vec<Ready> {
        let some = ready.iter().filter(|one| wanted(one.release));
        some.cloned().collect()
    };
    if selected.runs(FRAMEWORKS) {
        // It runs where all plugins are.
        let full = of(&|release| release.support == Support::Full);
        layer::TORCH.ensure(paths, &full)?;
    }
    if selected.asks_for(PYPI) {
        // The frameworks of today need the newest Python.
        layer::FRAMEWORKS.ensure(paths, &of(&|release| release.name == "24.11"))?;
    }
    if selected.runs(LOADER) {
        let progress = Progress::new(1, paths.logs());
        let step = progress.step("build-loader", "building the program that opens plugins");
        build::cargo(paths)
            .args(["build", "-p", "loader"])
            .run(&step)?;
        step.done();
    }
    if selected.runs(GUEST) {
        guest::ensure(paths)?;
    }
    Ok(())
}

/// Runs all one after the other, then fails if one did.
fn all_pass(cmds: Vec<Cmd>) -> Result<()> {
    judge(cmds.into_iter().map(|cmd| (cmd.run_shown(), cmd)))
}

/// Runs all at once, then fails if one did.
fn all_pass_at_once(cmds: Vec<Cmd>) -> Result<()> {
    thread::scope(|scope| {
        let running: Vec<_> = cmds
            .into_iter()
            .map(|cmd| scope.spawn(move || (cmd.run_shown(), cmd)))
            .collect();
        let ended = running.into_iter().map(|run| {
            run.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        judge(ended)
    })
}

fn judge(ended: impl Iterator<Item = (Result<ExitStatus>, Cmd)>) -> Result<()> {
    let mut failed = Vec::new();
    for (status, cmd) in ended {
        let status = status?;
        if !status.success() {
            interrupt::check()?;
            failed.push(format!("tests failed ({status}): {cmd}"));
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
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
