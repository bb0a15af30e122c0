//! Where roots, plugins and clusters are. The layout is `cargo xtask setup`'s.

use std::env;
use std::path::{Path, PathBuf};

use crate::{Error, Result, Version};

#[path = "../../../xtask/src/cache_dir.rs"]
mod cache_dir;

/// The cache that clones share: `SGPU_CACHE`, else `$XDG_CACHE_HOME/sgpu`, else `~/.cache/sgpu`.
pub(crate) fn cache() -> Result<PathBuf> {
    cache_dir::find(|name| env::var_os(name).map(PathBuf::from)).ok_or_else(|| {
        Error::Unusable("neither XDG_CACHE_HOME nor HOME is set: no place for the cache".into())
    })
}

/// The folder of roots: `SGPU_ROOTS`, else the cache's.
pub(crate) fn roots() -> Result<PathBuf> {
    match env::var_os("SGPU_ROOTS") {
        Some(dir) => Ok(dir.into()),
        None => Ok(cache()?.join("roots")),
    }
}

/// The workspace's own target folder, whatever CARGO_TARGET_DIR says: xtask puts plugins there.
fn target() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")).to_path_buf()
}

/// Where xtask puts what it builds: `SGPU_DIST`, else `target/dist`.
#[must_use]
pub fn dist() -> PathBuf {
    env::var_os("SGPU_DIST").map_or_else(|| target().join("dist"), PathBuf::from)
}

/// Our plugins for a full version.
#[must_use]
pub fn plugins(version: Version) -> PathBuf {
    dist().join(version.to_string())
}

/// The distribution's own `gpu_nvml.so` for a full version.
pub fn stock_plugin(version: Version) -> Result<PathBuf> {
    Ok(cache()?
        .join("stock")
        .join(version.to_string())
        .join("gpu_nvml.so"))
}

/// Where clusters have their folders: `SGPU_CLUSTERS`, else `target/tmp/clusters`.
pub(crate) fn clusters() -> PathBuf {
    env::var_os("SGPU_CLUSTERS").map_or_else(|| target().join("tmp/clusters"), PathBuf::from)
}
