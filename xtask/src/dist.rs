//! `cargo xtask dist`: the tarballs of a release.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};

use crate::build::{self, How, Target};
use crate::fsx;
use crate::links::{Moves, relink};
use crate::paths::Paths;
use crate::plugins::Plugin;
use crate::release::{self, Release};
use crate::setup;
use crate::step::Progress;

/// Build the release tarballs: target/dist/sgpu-VERSION-slurm-SLURM.tar.gz.
///
/// One for each Slurm release, with the plugins, the licence, the README, the docs, and man pages and
/// completions where there are any; and SHA256SUMS over them. The same sources give the same bytes
/// (file dates are SOURCE_DATE_EPOCH, or the last commit's).
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A Slurm release or its root's full version, may be repeated [default: 22.05 and 24.11]
    #[arg(long, value_name = "RELEASE", value_parser = release::parser())]
    slurm: Vec<&'static Release>,
}

/// Folders and files of the repository that go in as they are, if they are there.
const EXTRA: [&str; 6] = [
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "docs/man",
    "docs/completions",
    "docs/examples",
];

/// Runs the command.
pub(crate) fn main(args: &Args) -> Result<()> {
    let paths = Paths::find()?;
    let targets: Vec<Target> = setup::ensure(&paths, &release::chosen(&args.slurm))?
        .iter()
        .map(Target::of)
        .collect::<Result<_>>()?;
    let date = date(&paths);
    let progress = Progress::new(targets.len() * 2, paths.logs());
    let mut sums = String::new();
    for target in &targets {
        let version = target.version();
        let dir = build::plugins_for(&paths, target, How::default(), &progress)?;
        let step = progress.step("dist", format!("packing for Slurm {version}"));
        let name = format!("sgpu-{}-slurm-{version}", env!("CARGO_PKG_VERSION"));
        let files = contents(&paths.workspace, &target.plugins(), &dir)?;
        let bytes = pack(&name, &files, date)?;
        let file = format!("{name}.tar.gz");
        fsx::write_atomic(&paths.dist().join(&file), &bytes)?;
        sums.push_str(&format!("{}  {file}\n", hex(&Sha256::digest(&bytes))));
        step.done_with(&format!("{file}, {} kB", bytes.len() / 1000));
    }
    fsx::write_atomic(&paths.dist().join("SHA256SUMS"), sums)
}

/// The date that all files get: SOURCE_DATE_EPOCH, else the last commit's, else 0.
fn date(paths: &Paths) -> u64 {
    std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .or_else(|| {
            let git = crate::run::Cmd::new("git").args(["log", "-1", "--format=%ct"]);
            git.dir(&paths.workspace).output().ok()
        })
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// The docs' table of contents: of use to mdbook alone.
const SUMMARY: &str = "SUMMARY.md";

/// A file of the tarball: its name in there, its content and its mode.
type Entry = (String, Vec<u8>, u32);

/// Everything that goes in, in the order of names.
fn contents(workspace: &Path, plugins: &[&Plugin], dir: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for plugin in plugins {
        let name = format!("lib/slurm/{}", plugin.file);
        entries.push((name, read(&dir.join(plugin.file))?, 0o755));
    }
    let mut moves = Moves::new();
    for extra in EXTRA {
        add(
            &mut moves,
            workspace,
            Path::new(extra),
            extra.trim_start_matches("docs/"),
        )?;
    }
    add(&mut moves, workspace, Path::new("docs/src"), "doc")?;
    moves.retain(|from, _| !from.ends_with(SUMMARY));
    for needed in ["LICENSE", "README.md", "docs/src/install.md"] {
        if !moves.contains_key(Path::new(needed)) {
            bail!("the repository has no {needed}");
        }
    }
    for (from, to) in &moves {
        let mut data = read(&workspace.join(from))?;
        if from.extension().is_some_and(|end| end == "md") {
            data = relink(&String::from_utf8_lossy(&data), from, &moves).into_bytes();
        }
        entries.push((to.display().to_string(), data, 0o644));
    }
    entries.sort();
    Ok(entries)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Notes a file, or all files of a folder, if it is there.
fn add(moves: &mut Moves, workspace: &Path, from: &Path, name: &str) -> Result<()> {
    let path = workspace.join(from);
    if path.is_file() {
        moves.insert(from.to_owned(), name.into());
    } else if path.is_dir() {
        let inside =
            fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for entry in inside {
            let entry = entry.with_context(|| format!("cannot read {}", path.display()))?;
            let file = entry.file_name();
            let name = format!("{name}/{}", file.display());
            add(moves, workspace, &from.join(file), &name)?;
        }
    }
    Ok(())
}

/// A tar.gz that depends on the files' content, names and modes alone.
fn pack(top: &str, files: &[Entry], date: u64) -> Result<Vec<u8>> {
    let gzip = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    let mut tar = tar::Builder::new(gzip);
    for (name, data, mode) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(*mode);
        header.set_mtime(date);
        header.set_uid(0);
        header.set_gid(0);
        header.set_entry_type(tar::EntryType::Regular);
        tar.append_data(&mut header, format!("{top}/{name}"), data.as_slice())
            .with_context(|| format!("cannot pack {name}"))?;
    }
    let gzip = tar.into_inner().context("cannot end the tarball")?;
    gzip.finish().context("cannot end the tarball")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    fn names(bytes: &[u8]) -> Vec<String> {
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
        tar.entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect()
    }

    #[test]
    fn an_archive_has_plugins_licence_and_docs_whose_links_work() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let plugins = crate::plugins::of(Version::parse("24.11.5").unwrap(), true);
        for plugin in &plugins {
            fs::write(dir.path().join(plugin.file), "ELF").unwrap();
        }
        let entries = contents(workspace, &plugins, dir.path()).unwrap();
        let listed = names(&pack("top", &entries, 0).unwrap());
        for name in [
            "LICENSE",
            "README.md",
            "CHANGELOG.md",
            "doc/install.md",
            "doc/gpu-driver.md",
            "doc/energy.md",
            "doc/usage.md",
            "doc/limits.md",
            "lib/slurm/gpu_nvml.so",
            "lib/slurm/acct_gather_energy_sgpu.so",
        ] {
            let name = format!("top/{name}");
            assert!(listed.contains(&name), "{name} is not in {listed:?}");
        }
        for (name, data, _) in entries.iter().filter(|(name, ..)| name.ends_with(".md")) {
            let text = String::from_utf8_lossy(data);
            for target in crate::links::targets(&text) {
                let file = target.split('#').next().unwrap();
                let to = Path::new(name).parent().unwrap().join(file);
                let known = entries.iter().any(|(name, ..)| Path::new(name) == to);
                assert!(
                    known || target.contains("://") || file.is_empty(),
                    "{name} links to {target}, which is not in the archive"
                );
            }
        }
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let files = [("a".to_owned(), b"text".to_vec(), 0o644)];
        let first = pack("top", &files, 7).unwrap();
        assert_eq!(first, pack("top", &files, 7).unwrap());
        assert_ne!(first, pack("top", &files, 8).unwrap());
        assert_eq!(names(&first), ["top/a"]);
    }

    #[test]
    fn sums_are_written_as_sha256sum_reads_them() {
        assert_eq!(
            hex(&Sha256::digest("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
