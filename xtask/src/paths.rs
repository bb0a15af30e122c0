//! Where things are: the workspace, its target folder, and the cache shared by clones.
//!
//! ```text
//! $XDG_CACHE_HOME/sgpu/            (default ~/.cache/sgpu; override: SGPU_CACHE)
//!   lock                           held by one setup or clean at a time
//!   apt/<suite>/                   private apt settings and lists
//!   roots/<suite>/                 a Debian root with that suite's Slurm; stamp .sgpu-root
//!   src/<version>/                 Slurm's source as fetched; stamp .complete
//!   stock/<version>/gpu_nvml.so    the distribution's own plugin, the tests' oracle
//! target/
//!   logs/<step>.log                what each step printed
//!   slurm/<version>/{src,build}    Slurm's source, and its configured build folder
//!   slurm-<version>[-fault]/       cargo's target dir of that release
//!   programs/                      cargo's target dir of the programs beside the plugins
//!   dist/<version>[-fault]/        plugins, and programs beside them
//!   dist/fake-nvml/                libnvidia-ml.so.1 and the link libnvidia-ml.so
//! ```

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache_dir;

/// The folders that the commands work in.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// The workspace's root.
    pub(crate) workspace: PathBuf,
    /// The cache, shared by clones.
    pub(crate) cache: PathBuf,
}

impl Paths {
    /// Finds the workspace and the cache from the environment.
    pub(crate) fn find() -> Result<Self> {
        // cargo sets the variable at run time; the built-in value serves a directly started binary.
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let workspace = manifest
            .parent()
            .filter(|dir| dir.join("xtask/Cargo.toml").is_file())
            .with_context(|| format!("{} is not inside sgpu's workspace", manifest.display()))?
            .to_path_buf();
        let cache = cache_dir::find(|name| env::var_os(name).map(PathBuf::from))
            .context("neither XDG_CACHE_HOME nor HOME is set: no place for the cache")?;
        Ok(Self { workspace, cache })
    }

    /// The workspace's own target folder, whatever CARGO_TARGET_DIR says: what is under it is
    /// looked for by tests and documentation.
    pub(crate) fn target(&self) -> PathBuf {
        self.workspace.join("target")
    }

    /// Where each step's output goes.
    pub(crate) fn logs(&self) -> PathBuf {
        self.target().join("logs")
    }

    /// Where built plugins go.
    pub(crate) fn dist(&self) -> PathBuf {
        self.target().join("dist")
    }

    /// The Debian root of a suite.
    pub(crate) fn root(&self, suite: &str) -> PathBuf {
        self.cache.join("roots").join(suite)
    }

    /// The unpacked and configured source of a Slurm version.
    pub(crate) fn slurm(&self, version: &str) -> PathBuf {
        self.target().join("slurm").join(version)
    }

    /// The distribution's gpu_nvml.so of a Slurm version.
    pub(crate) fn stock(&self, version: &str) -> PathBuf {
        self.cache.join("stock").join(version).join("gpu_nvml.so")
    }

    /// A path as a person at the workspace's root would type it.
    pub(crate) fn short<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.workspace).unwrap_or(path)
    }
}
