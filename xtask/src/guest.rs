//! What the test of NUMA binding boots: QEMU, and Debian's kernel for virtual machines. The kernel is
//! unpacked into the cache, never installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::apt::{Apt, Mirrors};
use crate::fsx;
use crate::hostpkgs;
use crate::lock;
use crate::paths::Paths;
use crate::release::RELEASES;
use crate::run::Cmd;
use crate::step::{Progress, Step};
use crate::sudo;

/// Depends on the kernel of the day.
const KERNEL: &str = "linux-image-cloud-amd64";
const QEMU: (&str, &str) = ("qemu-system-x86", "/usr/bin/qemu-system-x86_64");

/// Where the test finds the kernel.
fn kernel(paths: &Paths) -> PathBuf {
    paths.cache.join("guest/vmlinuz")
}

/// Makes what is missing. The guest is an x86-64 machine with this machine's own programs in it.
pub(crate) fn ensure(paths: &Paths) -> Result<()> {
    if cfg!(not(target_arch = "x86_64")) {
        return Ok(());
    }
    let _lock = lock::take(paths)?;
    let (package, program) = QEMU;
    let (qemu, kernel) = (!Path::new(program).is_file(), kernel(paths));
    let missing = [qemu, !kernel.is_file()];
    let steps = missing.iter().filter(|missing| **missing).count();
    if steps == 0 {
        return Ok(());
    }
    let progress = Progress::new(steps, paths.logs());
    if qemu {
        sudo::ready("to install QEMU")?;
        hostpkgs::install(&[package], &progress)?;
    }
    if !kernel.is_file() {
        let step = progress.step("guest-kernel", "fetching a kernel for virtual machines");
        fetch(paths, &kernel, &step)?;
        step.done();
    }
    Ok(())
}

fn fetch(paths: &Paths, kernel: &Path, step: &Step<'_>) -> Result<()> {
    let [release, ..] = &RELEASES;
    let apt = Apt::new(paths, release, &Mirrors::of_host()?)?;
    apt.update(step)?;
    let depends = apt.cache(&["depends", KERNEL]).output()?;
    let package = image_of(&depends).with_context(|| format!("{KERNEL} depends on no kernel"))?;
    let versions = apt.versions(&["show"], package)?;
    let version = versions
        .first()
        .with_context(|| format!("the archives have no {package}"))?;
    let temp = kernel.with_file_name(".partial");
    fsx::remove_dir(&temp)?;
    fsx::make_dir(&temp)?;
    let made = apt.download(package, version, &temp, step).and_then(|deb| {
        let out = temp.join("x");
        Cmd::new("dpkg-deb")
            .arg("-x")
            .arg(&deb)
            .arg(&out)
            .run(step)?;
        let boot = fs::read_dir(out.join("boot"))?;
        let image = boot
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| {
                let name = path.file_name().unwrap_or_default();
                name.to_string_lossy().starts_with("vmlinuz")
            })
            .with_context(|| format!("{package} has no kernel in it"))?;
        fsx::copy_atomic(&image, kernel)
    });
    fsx::remove_dir(&temp)?;
    apt.tidy()?;
    made
}

/// The kernel's own package among what another depends on.
fn image_of(depends: &str) -> Option<&str> {
    depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_of_the_day() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-57-cloud-amd64\n";
        assert_eq!(image_of(text), Some("linux-image-6.1.0-57-cloud-amd64"));
        assert_eq!(
            image_of("linux-image-cloud-amd64\n  Depends: <none>\n"),
            None
        );
    }
}
