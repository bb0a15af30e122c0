//! `cargo xtask dist`: the tarballs of a release.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};

use crate::build::{self, How, Target};
use crate::fsx;
use crate::paths::Paths;
use crate::plugins;
use crate::release::{self, Release};
use crate::setup;
use crate::step::Progress;
use crate::version::Version;

/// Build the release tarballs: target/dist/sgpu-VERSION-slurm-SLURM.tar.gz.
///
/// One for each Slurm release, with the plugins, the licence, the README, and man pages and
/// completions where there are any; and SHA256SUMS over them. The same sources give the same bytes
/// (file dates are SOURCE_DATE_EPOCH, or the last commit's).
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A Slurm release or its root's full version, may be repeated [default: 22.05 and 24.11]
    #[arg(long, value_name = "RELEASE", value_parser = release::parser(), num_args = 1..)]
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
        let files = contents(&paths, version, &dir)?;
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

/// A file of the tarball: its name in there, where it comes from, and its mode.
type Entry = (String, PathBuf, u32);

/// Everything that goes in, in the order of names.
fn contents(paths: &Paths, version: Version, plugins: &Path) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = plugins::of(version)
        .iter()
        .map(|plugin| {
            (
                format!("lib/slurm/{}", plugin.file),
                plugins.join(plugin.file),
                0o755,
            )
        })
        .collect();
    for extra in EXTRA {
        let from = paths.workspace.join(extra);
        let name = extra.trim_start_matches("docs/");
        add(&mut entries, name, &from)?;
    }
    if !entries.iter().any(|(name, ..)| name == "LICENSE") {
        bail!("the repository has no LICENSE");
    }
    entries.sort();
    Ok(entries)
}

fn add(entries: &mut Vec<Entry>, name: &str, from: &Path) -> Result<()> {
    if from.is_file() {
        entries.push((name.to_owned(), from.to_owned(), 0o644));
    } else if from.is_dir() {
        let inside =
            fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
        for entry in inside {
            let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
            add(
                entries,
                &format!("{name}/{}", entry.file_name().display()),
                &entry.path(),
            )?;
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
    for (name, from, mode) in files {
        let data = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
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

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        fs::write(&file, "text").unwrap();
        let files = [("a".to_owned(), file.clone(), 0o644)];
        let first = pack("top", &files, 7).unwrap();
        fs::write(&file, "text").unwrap();
        assert_eq!(first, pack("top", &files, 7).unwrap());
        assert_ne!(first, pack("top", &files, 8).unwrap());
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(first.as_slice()));
        let names: Vec<_> = tar
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["top/a"]);
    }

    #[test]
    fn sums_are_written_as_sha256sum_reads_them() {
        assert_eq!(
            hex(&Sha256::digest("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
