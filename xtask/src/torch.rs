//! A release's root with PyTorch in it, for the tests of real training frameworks: a copy of the root and
//! Debian's own package in it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::apt::MIRROR_HINT;
use crate::fsx;
use crate::lock;
use crate::paths::Paths;
use crate::rootfs::{self, STAMP};
use crate::run::Cmd;
use crate::setup::Ready;
use crate::step::{Progress, Step};
use crate::sudo;

const PACKAGE: &str = "python3-torch";

/// Makes what is missing of these releases' roots.
pub(crate) fn ensure(paths: &Paths, releases: &[Ready]) -> Result<()> {
    let missing: Vec<&Ready> = releases
        .iter()
        .filter(|ready| !is_made(&folder(&ready.root.dir), &ready.root.dir))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let _lock = lock::take(paths)?;
    sudo::ready("to make Debian roots")?;
    let progress = Progress::new(missing.len(), paths.logs());
    for ready in missing {
        let suite = ready.release.suite;
        let step = progress.step(
            &format!("torch-{suite}"),
            format!("making a root of Debian {suite} with PyTorch (1.8 GB, a minute or two)"),
        );
        make(&ready.root.dir, &step)?;
        step.done();
    }
    Ok(())
}

/// `trixie-torch` beside `trixie`.
fn folder(root: &Path) -> PathBuf {
    let mut path = root.as_os_str().to_owned();
    path.push("-torch");
    path.into()
}

/// Whether it is complete and a copy of the root as it is now.
fn is_made(dir: &Path, root: &Path) -> bool {
    let stamp = |dir: &Path| fs::read_to_string(dir.join(STAMP)).ok();
    stamp(root).is_some_and(|stamped| stamp(dir).as_deref() == Some(&with_torch(&stamped)))
}

fn with_torch(stamp: &str) -> String {
    format!("{stamp}with={PACKAGE}\n")
}

fn make(root: &Path, step: &Step<'_>) -> Result<()> {
    let dir = folder(root);
    let name = dir.file_name().context("a root without a name")?;
    // We hold the cache's lock, so whatever partial root is here was left by a killed run.
    let partial = dir.with_file_name(format!(".{}.partial", name.to_string_lossy()));
    fsx::remove_root_dir(&partial)?;
    let made = install(root, &partial, step);
    if let Err(error) = made {
        fsx::remove_root_dir(&partial)?;
        return Err(error);
    }
    fsx::remove_root_dir(&dir)?;
    sudo::as_root(Cmd::new("mv").arg("-T").arg(&partial).arg(&dir))
        .output()
        .map(drop)
}

fn install(root: &Path, partial: &Path, step: &Step<'_>) -> Result<()> {
    let stamp = fs::read_to_string(root.join(STAMP))?;
    // The root's own apt knows where it came from.
    let script = format!(
        "cp -a --reflink=auto \"$1\" \"$2\"
         rm -f \"$2\"/{STAMP}
         cp /etc/resolv.conf \"$2\"/etc/resolv.conf || true
         mount -t proc proc \"$2\"/proc
         chroot \"$2\" apt-get update -q
         chroot \"$2\" apt-get install -y -q --no-install-recommends {PACKAGE}
         chroot \"$2\" apt-get clean
         umount \"$2\"/proc
         printf %s \"$3\" > \"$2\"/{STAMP}"
    );
    let shell = Cmd::new("sh")
        .args(["-ec", &script, "sh"])
        .arg(root)
        .arg(partial)
        .arg(with_torch(&stamp))
        .under(&rootfs::ISOLATED);
    sudo::as_root(rootfs::with_proxy(shell))
        .hint(MIRROR_HINT)
        .run(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_an_older_root_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("trixie");
        let torch = folder(&root);
        assert_eq!(torch, dir.path().join("trixie-torch"));
        for folder in [&root, &torch] {
            fs::create_dir(folder).unwrap();
        }
        assert!(!is_made(&torch, &root));
        fs::write(root.join(STAMP), "slurm=1\n").unwrap();
        fs::write(torch.join(STAMP), with_torch("slurm=1\n")).unwrap();
        assert!(is_made(&torch, &root));
        fs::write(root.join(STAMP), "slurm=2\n").unwrap();
        assert!(!is_made(&torch, &root));
    }
}
