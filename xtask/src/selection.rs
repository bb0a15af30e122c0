//! Which tests `cargo xtask test` runs: all, one suite, or those with a word in their names.

use anyhow::{Result, bail};

use crate::build;
use crate::matching::{self, Unit};
use crate::paths::Paths;
use crate::release::{self, Release, Support};
use crate::run::Cmd;

/// The suite that runs PyTorch.
pub(crate) const FRAMEWORKS: &str = "frameworks";
/// The suite that runs what PyPI has: an extra. Its tests are `#[ignore]`d where nobody names them.
pub(crate) const PYPI: &str = "frameworks_pypi";
/// The suite that boots a guest.
pub(crate) const GUEST: &str = "numa_guest";
/// The suite that opens plugins by a program of its own.
pub(crate) const LOADER: &str = "loader";
/// The suite whose jobs run for minutes and do nothing: it is run beside all others.
const LONG: &str = "energy";
/// What its tests are called, and no others.
const LONG_TESTS: &str = "five_minutes";
/// The suites that load the plugins which panic in every hook.
pub(crate) const FAULTY: [&str; 2] = [LOADER, "spank_faults"];
/// The suites of SPANK plugins. Where only these are built, no others run.
const SPANK: [&str; 11] = [
    "abi",
    LOADER,
    "spank_bind",
    "spank_bind_nodes",
    "spank_ckpt",
    "spank_ckpt_marks",
    "spank_containers",
    "spank_env",
    "spank_env_ports",
    "spank_faults",
    "spank_special_steps",
];

/// What is run: cargo's words for each of its runs, and the filter of test names.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) plain: Vec<Vec<String>>,
    pub(crate) daemons: Vec<Vec<String>>,
    pub(crate) filter: Option<String>,
    /// Whether the last of the runs on daemons is that of the long suite, beside all others.
    pub(crate) has_long: bool,
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
pub(crate) fn is_suite(paths: &Paths, name: &str) -> bool {
    let file = paths.workspace.join("tests/suites/tests").join(name);
    !name.contains(['/', '.']) && file.with_extension("rs").is_file()
}

/// Whether cargo's words name a suite.
pub(crate) fn is_named(words: &[String], suite: &str) -> bool {
    words
        .windows(2)
        .any(|pair| pair[0] == "--test" && pair[1] == suite)
}

impl Selected {
    /// Whether a suite is run, alone or with all others.
    pub(crate) fn runs(&self, suite: &str) -> bool {
        self.daemons.iter().any(|words| {
            let suites = words.iter().any(|word| word == "suites");
            let some = words.iter().any(|word| word == "--test");
            suites && (!some || is_named(words, suite))
        })
    }

    /// The test programs' options of a run on daemons that leave out what another run has.
    pub(crate) fn left_to_another(&self, words: &[String]) -> &'static [&'static str] {
        if self.has_long && !is_named(words, LONG) {
            &["--skip", LONG_TESTS]
        } else {
            &[]
        }
    }

    /// Whether a suite is run because it, or tests of it, were asked for.
    pub(crate) fn asks_for(&self, suite: &str) -> bool {
        self.daemons.iter().any(|words| is_named(words, suite))
    }

    pub(crate) fn all(fast: bool, releases: &[&Release]) -> Self {
        let words = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let daemons: Vec<Vec<String>> = if fast {
            Vec::new()
        } else if have_all_plugins(releases) {
            vec![
                words(&["-p", "harness", "-p", "demo", "-p", "suites"]),
                words(&["-p", "suites", "--test", LONG]),
            ]
        } else {
            let mut suites = vec!["-p", "suites"];
            suites.extend(SPANK.iter().flat_map(|suite| ["--test", *suite]));
            vec![words(&["-p", "harness", "-p", "demo"]), words(&suites)]
        };
        Self {
            plain: vec![Vec::new()],
            has_long: daemons.last().is_some_and(|words| is_named(words, LONG)),
            daemons,
            filter: None,
        }
    }

    pub(crate) fn suite(fast: bool, releases: &[&Release], name: &str) -> Result<Self> {
        if fast {
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
    pub(crate) fn matching(
        paths: &Paths,
        fast: bool,
        releases: &[&Release],
        filter: &str,
    ) -> Result<Self> {
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
            daemons: if fast {
                Vec::new()
            } else {
                have(&DAEMON_FOLDERS.map(str::to_owned), &skips(releases))?
            },
            filter: Some(filter.to_owned()),
            has_long: false,
        };
        if selected.plain.is_empty() && selected.daemons.is_empty() {
            let names: Vec<&str> = releases.iter().map(|release| release.name).collect();
            let on = if fast {
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
pub(crate) fn skips(releases: &[&Release]) -> Vec<String> {
    left_out(releases)
        .into_iter()
        .flat_map(|release| ["--skip".to_owned(), mark(release)])
        .collect()
}

/// What a person is told of the tests that are not run.
pub(crate) fn not_run(releases: &[&Release]) -> Vec<String> {
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

/// `cargo test`; all tests run, so that one failure does not hide another.
pub(crate) fn cargo_test(paths: &Paths, words: &[String]) -> Cmd {
    build::cargo(paths)
        .args(["test", "--no-fail-fast"])
        .args(words)
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

    #[test]
    fn the_long_suite_runs_once_and_beside_the_others() {
        let [old, new, testing] = &release::RELEASES;
        let all = Selected::all(false, &[old, new]);
        assert!(all.has_long);
        let left: Vec<_> = all
            .daemons
            .iter()
            .map(|words| all.left_to_another(words))
            .collect();
        assert_eq!(left, [&["--skip", LONG_TESTS][..], &[]]);
        assert!(!Selected::all(false, &[testing]).has_long);
        assert!(!Selected::suite(false, &[old, new], LONG).unwrap().has_long);
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
        let releases = release::fully_supported();
        let all = Selected::all(false, &releases);
        assert!(all.runs(FRAMEWORKS) && !all.asks_for(PYPI));
        let one = Selected::suite(false, &releases, PYPI).unwrap();
        assert!(one.asks_for(PYPI) && !one.runs(FRAMEWORKS));
    }
}
