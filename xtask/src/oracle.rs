//! The distribution's own gpu/nvml plugin: what tests compare ours with. It is downloaded and
//! unpacked, never installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::apt::Apt;
use crate::fsx;
use crate::paths::Paths;
use crate::rootfs::Root;
use crate::run::Cmd;
use crate::step::Step;
use crate::version::Version;

/// In the `contrib` component.
const PACKAGE: &str = "slurm-wlm-nvml-plugin";

/// Fetches the plugin of exactly the root's Slurm version.
pub(crate) fn fetch(paths: &Paths, root: &Root, apt: &Apt, step: &Step<'_>) -> Result<()> {
    let known = apt.versions(&["show"], PACKAGE)?;
    let Some(package) = pick(&known, root.slurm, &root.package) else {
        bail!(
            "the root {} runs Slurm {}, but the archives have {PACKAGE} {} only: a plugin of \
             another version cannot be compared with. `cargo xtask clean` and a new setup bring \
             both to the archive's state",
            root.dir.display(),
            root.slurm,
            if known.is_empty() {
                "in no version".to_owned()
            } else {
                known.join(", ")
            }
        );
    };
    let so = paths.stock(&root.slurm.to_string());
    let dir = so.parent().context("no folder for the plugin")?;
    let temp = dir.join(".partial");
    fsx::remove_dir(&temp)?;
    fsx::make_dir(&temp)?;
    let made = apt.download(PACKAGE, package, &temp, step).and_then(|deb| {
        let out = temp.join("x");
        Cmd::new("dpkg-deb")
            .arg("-x")
            .arg(&deb)
            .arg(&out)
            .run(step)?;
        let found = find(&out, "gpu_nvml.so")
            .with_context(|| format!("{PACKAGE} {package} has no gpu_nvml.so"))?;
        fsx::copy_atomic(&found, &so)
    });
    fsx::remove_dir(&temp)?;
    made
}

/// The package of this Slurm version, best the root's own Debian version.
fn pick<'a>(known: &'a [String], slurm: Version, package: &str) -> Option<&'a String> {
    known
        .iter()
        .filter(|version| Version::of_package(version) == Some(slurm))
        .max_by_key(|version| *version == package)
}

fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(dir).ok()?.flatten() {
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            if let Some(found) = find(&entry.path(), name) {
                return Some(found);
            }
        } else if kind.is_file() && entry.file_name() == name {
            return Some(entry.path());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_roots_own_slurm_version_will_do() {
        let known = [
            "24.11.4-1".to_owned(),
            "24.11.5-1".to_owned(),
            "24.11.5-4".to_owned(),
        ];
        let slurm = Version::parse("24.11.5").unwrap();
        assert_eq!(pick(&known, slurm, "24.11.5-1").unwrap(), "24.11.5-1");
        assert_eq!(
            pick(&known, slurm, "24.11.5-9").map(|v| Version::of_package(v)),
            Some(Some(slurm))
        );
        assert_eq!(
            pick(&known, Version::parse("24.11.6").unwrap(), "24.11.6-1"),
            None
        );
    }
}
