//! Which test binaries a name filter can match, read from the sources: only those are built and run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// One test binary: what cargo builds for one selection of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The package.
    pub(crate) package: String,
    /// cargo's words for it: `--lib`, `--bins`, `--doc`, `--test NAME`.
    pub(crate) select: Vec<String>,
    /// The package's folder.
    dir: PathBuf,
    /// The file, or the folder of files, that its tests are in.
    sources: PathBuf,
}

impl Unit {
    /// All units of the packages in these folders of the workspace.
    pub(crate) fn of(workspace: &Path, folders: &[String]) -> Result<Vec<Self>> {
        let mut units = Vec::new();
        for folder in folders {
            let dir = workspace.join(folder);
            let package = package(&dir)?;
            let mut add = |select: &[&str], sources: PathBuf| {
                units.push(Self {
                    package: package.clone(),
                    select: select.iter().map(|word| (*word).to_owned()).collect(),
                    dir: dir.clone(),
                    sources,
                });
            };
            let src = dir.join("src");
            if src.join("lib.rs").is_file() {
                add(&["--lib"], src.clone());
                add(&["--doc"], src.clone());
            }
            if src.join("main.rs").is_file() {
                add(&["--bins"], src);
            }
            for file in files(&dir.join("tests")) {
                if let Some(name) = file.file_stem().and_then(|name| name.to_str()) {
                    add(&["--test", name], file.clone());
                }
            }
        }
        Ok(units)
    }

    /// Whether a test of it may have the filter in its name. True for more than have it, since the
    /// sources are only skimmed; never false for one that has it.
    pub(crate) fn may_match(&self, filter: &str) -> bool {
        // Of `mod::name`, one source file shows each part in a place of its own.
        let part = filter.rsplit("::").next().unwrap_or(filter).trim();
        let doc = self.select.iter().any(|word| word == "--doc");
        let mut sources = vec![self.sources.clone()];
        while let Some(path) = sources.pop() {
            if path.is_dir() {
                sources.extend(entries(&path));
                continue;
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            let of_kind = if doc {
                text.contains("/// ```") || text.contains("//! ```")
            } else {
                text.contains("#[test]")
            };
            let inside = path.strip_prefix(&self.dir).unwrap_or(&path);
            let in_path = inside.to_string_lossy().contains(part);
            if of_kind && (in_path || text.lines().any(|line| names(line, part))) {
                return true;
            }
        }
        false
    }
}

/// Whether a line names a function, module or type with this part in its name.
fn names(line: &str, part: &str) -> bool {
    ["fn ", "mod ", "struct ", "enum ", "trait ", "impl "]
        .iter()
        .filter_map(|word| line.split_once(word))
        .any(|(_, rest)| rest.contains(part))
}

/// The folders that `cargo test` takes without `-p`.
pub(crate) fn default_members(workspace: &Path) -> Result<Vec<String>> {
    let manifest = manifest(workspace)?;
    let members = manifest
        .get("workspace")
        .and_then(|table| table.get("default-members")?.as_array())
        .context("the workspace has no default-members")?;
    Ok(members
        .iter()
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect())
}

/// cargo's words for units, package by package; doc tests are a run of their own.
pub(crate) fn runs(units: &[Unit]) -> Vec<Vec<String>> {
    let mut by_package: BTreeMap<(&str, bool), Vec<String>> = BTreeMap::new();
    for unit in units {
        let doc = unit.select.iter().any(|word| word == "--doc");
        by_package
            .entry((&unit.package, doc))
            .or_insert_with(|| vec!["-p".to_owned(), unit.package.clone()])
            .extend(unit.select.iter().cloned());
    }
    by_package.into_values().collect()
}

fn package(dir: &Path) -> Result<String> {
    manifest(dir)?
        .get("package")
        .and_then(|table| Some(table.get("name")?.as_str()?.to_owned()))
        .with_context(|| format!("{} has no package", dir.display()))
}

fn manifest(dir: &Path) -> Result<toml::Table> {
    let path = dir.join("Cargo.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse()
        .with_context(|| format!("cannot read {}", path.display()))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "rs"))
        .collect();
    paths.sort();
    paths
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut paths = entries(dir);
    paths.retain(|path| path.is_file());
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(folders: &[&str], filter: &str) -> Vec<Unit> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folders: Vec<_> = folders.iter().map(|name| (*name).to_owned()).collect();
        let mut units = Unit::of(workspace, &folders).unwrap();
        units.retain(|unit| unit.may_match(filter));
        units
    }

    #[test]
    fn a_filter_leaves_the_units_that_can_match() {
        let found = units(&["xtask", "tests/harness"], "a_filter_leaves_the_units");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].package, "xtask");
        assert_eq!(found[0].select, ["--bins"]);
        assert_eq!(
            units(&["xtask"], "matching::tests::a_filter_leaves").len(),
            1
        );
        assert_eq!(units(&["xtask"], "no_such_test_anywhere"), []);
    }

    #[test]
    fn a_module_and_a_file_of_tests_match_by_name() {
        assert!(!units(&["xtask"], "matching").is_empty());
        let boot = units(&["tests/harness"], "four_nodes_boot");
        assert_eq!(runs(&boot), [["-p", "harness", "--test", "boot"]]);
    }

    #[test]
    fn the_workspace_names_its_default_members() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let members = default_members(workspace).unwrap();
        assert!(members.contains(&"xtask".to_owned()), "{members:?}");
    }
}
