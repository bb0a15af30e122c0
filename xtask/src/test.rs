//! `cargo xtask test`: every test, with what it needs made first.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::build::{self, How, Target};
use crate::guest;
use crate::interrupt;
use crate::layer;
use crate::matching::{self, Unit};
use crate::paths::Paths;
use crate::release::{self, Release, Support};
use crate::run::Cmd;
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
        None => Selected::all(args, &releases),
        Some(name) if is_suite(&paths, name) => Selected::suite(args, &releases, name)?,
        Some(filter) => stages.run("finding tests", || {
            Selected::matching(&paths, args, &releases, filter)
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
            all_pass(
                selected
                    .plain
                    .iter()
                    .map(|words| cargo_test(&paths, words).args(&selected.filter)),
            )
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
            all_pass(selected.daemons.iter().map(|words| {
                let tests = cargo_test(&paths, words)
                    .args(&selected.filter)
                    .arg("--")
                    .args(skips(&releases))
                    .args(is_named(words, PYPI).then_some("--include-ignored"));
                sudo::programs_as_root(tests)
                    .env("SGPU_CACHE", &paths.cache)
                    .env("SGPU_DIST", paths.dist())
                    .env("SGPU_SLURM", names.join(" "))
            }))
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

/// The suite that runs PyTorch.
const FRAMEWORKS: &str = "frameworks";
/// The suite that runs what PyPI has: an extra. Its tests are `#[ignore]`d where nobody names them.
const PYPI: &str = "frameworks_pypi";
/// The suite that boots a guest.
const GUEST: &str = "numa_guest";
/// The suite that opens plugins by a program of its own.
const LOADER: &str = "loader";
/// The suites that load the plugins which panic in every hook.
const FAULTY: [&str; 2] = [LOADER, "spank_faults"];
/// The suites of SPANK plugins. Where only these are built, no others run.
const SPANK: [&str; 6] = [
    "abi",
    LOADER,
    "spank_bind",
    "spank_ckpt",
    "spank_env",
    "spank_faults",
];

/// What is run: cargo's words for each of its runs, and the filter of test names.
#[derive(Debug, Default)]
struct Selected {
    plain: Vec<Vec<String>>,
    daemons: Vec<Vec<String>>,
    filter: Option<String>,
}

/// The packages of tests on daemons.
const DAEMON_FOLDERS: [&str; 3] = ["tests/harness", "tests/demo", "tests/suites"];

/// Whether all plugins are built for one of these releases; otherwise the SPANK plugins alone are.
fn have_all_plugins(releases: &[&Release]) -> bool {
    releases
        .iter()
        .any(|release| release.support == Support::Full)
}

/// The files in tests/suites/tests.
fn suites(paths: &Paths) -> Vec<String> {
    let entries = paths.workspace.join("tests/suites/tests").read_dir();
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Whether a name is that of a file in tests/suites/tests.
fn is_suite(paths: &Paths, name: &str) -> bool {
    let file = paths.workspace.join("tests/suites/tests").join(name);
    !name.contains(['/', '.']) && file.with_extension("rs").is_file()
}

/// Whether cargo's words name a suite.
fn is_named(words: &[String], suite: &str) -> bool {
    words
        .windows(2)
        .any(|pair| pair[0] == "--test" && pair[1] == suite)
}

impl Selected {
    /// Whether a suite is run, alone or with all others.
    fn runs(&self, suite: &str) -> bool {
        self.daemons.iter().any(|words| {
            let suites = words.iter().any(|word| word == "suites");
            let some = words.iter().any(|word| word == "--test");
            suites && (!some || is_named(words, suite))
        })
    }

    /// Whether a suite is run because it, or tests of it, were asked for.
    fn asks_for(&self, suite: &str) -> bool {
        self.daemons.iter().any(|words| is_named(words, suite))
    }

    fn all(args: &Args, releases: &[&Release]) -> Self {
        let words = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let daemons = if args.fast {
            Vec::new()
        } else if have_all_plugins(releases) {
            vec![words(&["-p", "harness", "-p", "demo", "-p", "suites"])]
        } else {
            let mut suites = vec!["-p", "suites"];
            suites.extend(SPANK.iter().flat_map(|suite| ["--test", *suite]));
            vec![words(&["-p", "harness", "-p", "demo"]), words(&suites)]
        };
        Self {
            plain: vec![Vec::new()],
            daemons,
            filter: None,
        }
    }

    fn suite(args: &Args, releases: &[&Release], name: &str) -> Result<Self> {
        if args.fast {
            bail!("the suite {name} needs daemons: leave --fast out");
        }
        let runs = have_all_plugins(releases) || SPANK.contains(&name);
        if let (false, Some(release)) = (runs, releases.first()) {
            release::fully(release, &format!("the suite {name}"))?;
        }
        let words = ["-p", "suites", "--test", name].map(str::to_owned);
        Ok(Self {
            daemons: vec![words.to_vec()],
            ..Self::default()
        })
    }

    /// The test binaries that have tests with the filter in their names. Of all others nothing is built;
    /// a filter that nothing matches is an error, since a mistyped one would pass.
    fn matching(paths: &Paths, args: &Args, releases: &[&Release], filter: &str) -> Result<Self> {
        let have = |folders: &[String], skips: &[String]| -> Result<Vec<Vec<String>>> {
            let mut found = Vec::new();
            for unit in Unit::of(&paths.workspace, folders)? {
                let runs = runs_on(&unit, releases) && unit.may_match(filter);
                if runs && has_tests(paths, &unit, filter, skips)? {
                    found.push(unit);
                }
            }
            Ok(matching::runs(&found))
        };
        let members = matching::default_members(&paths.workspace)?;
        let selected = Self {
            plain: have(&members, &[])?,
            daemons: if args.fast {
                Vec::new()
            } else {
                have(&DAEMON_FOLDERS.map(str::to_owned), &skips(releases))?
            },
            filter: Some(filter.to_owned()),
        };
        if selected.plain.is_empty() && selected.daemons.is_empty() {
            let names: Vec<&str> = releases.iter().map(|release| release.name).collect();
            let on = if args.fast {
                "without Slurm".to_owned()
            } else {
                format!("on Slurm {}", names.join(" and "))
            };
            bail!(
                "no test {on} has {filter:?} in its name, and no suite is called so; the suites are {}",
                suites(paths).join(", ")
            );
        }
        Ok(selected)
    }
}

/// Whether a test binary has something to test on these releases.
fn runs_on(unit: &Unit, releases: &[&Release]) -> bool {
    let of_spank = || {
        let mut words = unit.select.iter();
        words.any(|word| SPANK.contains(&word.as_str()))
    };
    unit.package != "suites" || have_all_plugins(releases) || of_spank()
}

fn has_tests(paths: &Paths, unit: &Unit, filter: &str, skips: &[String]) -> Result<bool> {
    let words: Vec<String> = [
        vec!["-p".to_owned(), unit.package.clone()],
        unit.select.clone(),
    ]
    .concat();
    let listed = cargo_test(paths, &words)
        .args([filter, "--", "--list"])
        .args(skips)
        .output()?;
    Ok(listed.lines().any(|line| line.ends_with(": test")))
}

/// The part of a test's name that says that it is of one release alone: `_22_05`.
fn mark(release: &Release) -> String {
    format!("_{}", release.name.replace('.', "_"))
}

/// Fully supported releases that are not under test.
fn left_out(releases: &[&Release]) -> Vec<&'static Release> {
    let mut left = release::fully_supported();
    left.retain(|release| !releases.contains(release));
    left
}

/// The test programs' options that leave out what is of other releases alone.
fn skips(releases: &[&Release]) -> Vec<String> {
    left_out(releases)
        .into_iter()
        .flat_map(|release| ["--skip".to_owned(), mark(release)])
        .collect()
}

/// What a person is told of the tests that are not run.
fn not_run(releases: &[&Release]) -> Vec<String> {
    if !have_all_plugins(releases) {
        return vec![format!(
            "not run: suites other than {}, since only the SPANK plugins are built for these releases",
            SPANK.join(", ")
        )];
    }
    let line = |release: &Release| {
        format!(
            "not run: tests with `{}` in their names, since Slurm {} is not under test",
            mark(release),
            release.name
        )
    };
    left_out(releases).into_iter().map(line).collect()
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

/// `cargo test`; all tests run, so that one failure does not hide another.
fn cargo_test(paths: &Paths, words: &[String]) -> Cmd {
    build::cargo(paths)
        .args(["test", "--no-fail-fast"])
        .args(words)
}

/// Runs all, then fails if one did.
fn all_pass(cmds: impl Iterator<Item = Cmd>) -> Result<()> {
    let mut failed = Vec::new();
    for cmd in cmds {
        let status = cmd.run_shown()?;
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
    fn tests_of_other_releases_are_left_out_and_named() {
        let [old, new, testing] = &release::RELEASES;
        assert!(skips(&[old, new]).is_empty());
        assert!(not_run(&[old, new, testing]).is_empty());
        assert_eq!(skips(&[new]), ["--skip", "_22_05"]);
        assert_eq!(not_run(&[new]).len(), 1);
        assert!(not_run(&[new]).concat().contains("Slurm 22.05"));
        assert!(not_run(&[testing]).concat().contains("other than abi"));
    }

    /// Those that a test of theirs asks for.
    #[test]
    fn the_suites_of_spank_plugins_are_those_that_run_on_each_of_their_releases() {
        let paths = Paths::find().unwrap();
        let folder = paths.workspace.join("tests/suites/tests");
        let mut asking = suites(&paths);
        asking.retain(|name| {
            let text = std::fs::read_to_string(folder.join(name).with_extension("rs")).unwrap();
            text.contains("spank_release")
        });
        assert_eq!(asking, SPANK);
    }

    #[test]
    fn where_only_spank_plugins_are_no_other_suite_runs() {
        let paths = Paths::find().unwrap();
        let [.., new, testing] = &release::RELEASES;
        let units = Unit::of(&paths.workspace, &DAEMON_FOLDERS.map(str::to_owned)).unwrap();
        let runs = |name: &str, releases: &[&Release]| {
            let mut units = units.iter();
            let unit = units.find(|unit| unit.select.iter().any(|word| word == name));
            runs_on(unit.unwrap(), releases)
        };
        assert!(runs("energy", &[new, testing]) && !runs("energy", &[testing]));
        assert!(runs("spank_env", &[testing]) && runs("boot", &[testing]));
    }

    #[test]
    fn the_extra_is_run_by_name_alone() {
        let args = Args {
            filter: None,
            slurm: Vec::new(),
            fast: false,
        };
        let releases = release::fully_supported();
        let all = Selected::all(&args, &releases);
        assert!(all.runs(FRAMEWORKS) && !all.asks_for(PYPI));
        let one = Selected::suite(&args, &releases, PYPI).unwrap();
        assert!(one.asks_for(PYPI) && !one.runs(FRAMEWORKS));
    }

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
