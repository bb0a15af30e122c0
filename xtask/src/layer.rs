//! Roots with more in them, for the tests of real training frameworks: a copy of another root, with packages
//! of its Debian and wheels from PyPI in it.

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
use crate::wheels;

/// What such a root is made of.
#[derive(Debug)]
pub(crate) struct Layer {
    /// What its folder's name ends with: `trixie-torch` beside `trixie`.
    suffix: &'static str,
    /// The layer below; none: the release's own root.
    below: Option<&'static Layer>,
    /// What is in it, and what that takes.
    title: &'static str,
    /// Debian's packages.
    packages: &'static [&'static str],
    /// PyPI's, with their versions; without what these depend on.
    wheels: &'static [&'static str],
}

/// Debian's own PyTorch.
pub(crate) const TORCH: Layer = Layer {
    suffix: "-torch",
    below: None,
    title: "PyTorch (1.8 GB, a minute or two)",
    packages: &["python3-torch"],
    wheels: &[],
};

/// What trains over it, and JAX. PyPI's PyTorch needs NVIDIA's libraries, gigabytes of them, to start at all.
pub(crate) const FRAMEWORKS: Layer = Layer {
    suffix: "-frameworks",
    below: Some(&TORCH),
    title: "submitit, accelerate, Lightning and JAX (2.3 GB, of which 110 MB are fetched; a minute)",
    packages: &[
        "python3-filelock",
        "python3-fsspec",
        "python3-packaging",
        "python3-psutil",
        "python3-requests",
        "python3-safetensors",
        "python3-scipy",
        "python3-tqdm",
        "python3-typing-extensions",
        "python3-yaml",
    ],
    wheels: &[
        "accelerate==1.15.0",
        "cloudpickle==3.1.3",
        "huggingface_hub==0.36.2",
        "jax==0.12.0.1",
        "jaxlib==0.12.0.1",
        "lightning-utilities==0.15.3",
        "ml_dtypes==0.6.0",
        "opt_einsum==3.4.0",
        "pytorch-lightning==2.6.6",
        "submitit==1.5.4",
        "torchmetrics==1.9.0",
    ],
};

impl Layer {
    /// Makes what is missing of it over these releases' roots.
    pub(crate) fn ensure(&self, paths: &Paths, releases: &[Ready]) -> Result<()> {
        if let Some(below) = self.below {
            below.ensure(paths, releases)?;
        }
        let missing: Vec<&Ready> = releases
            .iter()
            .filter(|ready| !self.is_made(&ready.root.dir))
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
                &format!("root-{suite}{}", self.suffix),
                format!("making a root of Debian {suite} with {}", self.title),
            );
            self.make(paths, &ready.root.dir, &step)?;
            step.done();
        }
        Ok(())
    }

    /// Its folder, beside the release's root.
    fn folder(&self, root: &Path) -> PathBuf {
        let mut path = root.as_os_str().to_owned();
        path.push(self.suffix);
        path.into()
    }

    /// The folder that it is made from.
    fn base(&self, root: &Path) -> PathBuf {
        self.below
            .map_or_else(|| root.to_owned(), |below| below.folder(root))
    }

    /// Whether it is complete, and made of what it says here and of the release's root as it is now.
    fn is_made(&self, root: &Path) -> bool {
        let stamp = fs::read_to_string(self.folder(root).join(STAMP)).ok();
        stamp.is_some() && stamp == self.stamp(root)
    }

    /// What is written into it when it is complete; none where the release's root is not.
    fn stamp(&self, root: &Path) -> Option<String> {
        let base = match self.below {
            None => fs::read_to_string(root.join(STAMP)).ok(),
            Some(below) => below.stamp(root),
        };
        let with = [self.packages, self.wheels].concat().join(",");
        Some(format!("{}with={with}\n", base?))
    }

    fn make(&self, paths: &Paths, root: &Path, step: &Step<'_>) -> Result<()> {
        let dir = self.folder(root);
        let name = dir.file_name().context("a root without a name")?;
        // We hold the cache's lock, so whatever partial root is here was left by a killed run.
        let partial = dir.with_file_name(format!(".{}.partial", name.to_string_lossy()));
        fsx::remove_root_dir(&partial)?;
        let made = self.fill(paths, root, &partial, step);
        if let Err(error) = made {
            fsx::remove_root_dir(&partial)?;
            return Err(error);
        }
        fsx::remove_root_dir(&dir)?;
        sudo::as_root(Cmd::new("mv").arg("-T").arg(&partial).arg(&dir))
            .output()
            .map(drop)
    }

    fn fill(&self, paths: &Paths, root: &Path, partial: &Path, step: &Step<'_>) -> Result<()> {
        let stamp = self.stamp(root).context("a root without a stamp")?;
        let base = self.base(root);
        let wheels = wheels::fetch(paths, self.wheels, &base, step)?;
        // The root's own apt knows where it came from. In /usr/local is Debian's place for what is not its own.
        let script = format!(
            "cp -a --reflink=auto \"$1\" \"$2\"
             rm -f \"$2\"/{STAMP}
             cp /etc/resolv.conf \"$2\"/etc/resolv.conf || true
             mount -t proc proc \"$2\"/proc
             chroot \"$2\" apt-get update -q
             chroot \"$2\" apt-get install -y -q --no-install-recommends {}
             chroot \"$2\" apt-get clean
             umount \"$2\"/proc
             place=\"$2\"/usr/local/lib/$(readlink \"$2\"/usr/bin/python3)/dist-packages
             mkdir -p \"$place\"
             cp -r --no-preserve=ownership \"$3\"/. \"$place\"
             printf %s \"$4\" > \"$2\"/{STAMP}",
            self.packages.join(" ")
        );
        let shell = Cmd::new("sh")
            .args(["-ec", &script, "sh"])
            .arg(base)
            .arg(partial)
            .arg(&wheels)
            .arg(stamp)
            .under(&rootfs::ISOLATED);
        sudo::as_root(rootfs::with_proxy(shell))
            .hint(MIRROR_HINT)
            .run(step)?;
        fsx::remove_dir(&wheels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_an_older_root_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("trixie");
        for (layer, name) in [(TORCH, "trixie-torch"), (FRAMEWORKS, "trixie-frameworks")] {
            let folder = layer.folder(&root);
            assert_eq!(folder, dir.path().join(name));
            fs::create_dir_all(&folder).unwrap();
            fs::create_dir_all(&root).unwrap();
            assert!(!layer.is_made(&root));
            fs::write(root.join(STAMP), "slurm=1\n").unwrap();
            assert!(!layer.is_made(&root));
            fs::write(folder.join(STAMP), layer.stamp(&root).unwrap()).unwrap();
            assert!(layer.is_made(&root));
            fs::write(root.join(STAMP), "slurm=2\n").unwrap();
            assert!(!layer.is_made(&root));
            fs::remove_file(root.join(STAMP)).unwrap();
        }
    }
}
