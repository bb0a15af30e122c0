//! Which Slurm the bindings are for: where its headers are and which release they are of.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use slurm_headers_cfg::version_words;

/// The headers of one face and the release that they say they are of.
pub(crate) struct Headers {
    /// Folders for the include path, first wins.
    pub(crate) include: Vec<PathBuf>,
    /// Slurm's packed `SLURM_VERSION_NUMBER`.
    pub(crate) version: u32,
}

/// What the environment names; both `None` on a machine without Slurm.
pub(crate) struct Slurm {
    /// `SLURM_INCLUDE`: the folder of the running release's public headers; else those of the source tree.
    pub(crate) public: Option<Headers>,
    /// `SLURM_SRC` and `SLURM_BUILD`: the release's source tree and where it was configured.
    pub(crate) internal: Option<Headers>,
}

/// Reads `SLURM_INCLUDE`, `SLURM_SRC` and `SLURM_BUILD`.
///
/// # Errors
/// When a named folder lacks Slurm's headers, or when source tree and public headers (those of the
/// daemons that run) are of different releases: a plugin built so would corrupt the daemon's memory.
pub(crate) fn discover() -> Result<Slurm, String> {
    let folder = |key: &str| {
        println!("cargo::rerun-if-env-changed={key}");
        env::var_os(key)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let (include, src, build) = (
        folder("SLURM_INCLUDE"),
        folder("SLURM_SRC"),
        folder("SLURM_BUILD"),
    );

    let public = include
        .map(|dir| {
            Ok::<_, String>(Headers {
                version: version(&dir)?,
                include: vec![dir],
            })
        })
        .transpose()?;
    let internal = match (src, build) {
        (None, None) => None,
        (None, Some(build)) => {
            return Err(format!(
                "SLURM_BUILD={} is set but SLURM_SRC is not: name Slurm's source tree too",
                build.display()
            ));
        }
        (Some(src), build) => {
            let build = build.unwrap_or_else(|| src.clone());
            Some(Headers {
                version: version(&build)?,
                include: vec![build, src],
            })
        }
    };

    if let (Some(public), Some(internal)) = (&public, &internal)
        && public.version != internal.version
    {
        return Err(format!(
            "the source tree {} is Slurm {}, but the daemons' headers in {} are Slurm {}; \
             build against the source of the very release that runs",
            internal.include[1].display(),
            version_words(internal.version),
            public.include[0].display(),
            version_words(public.version),
        ));
    }
    let of_tree = || {
        internal.as_ref().map(|tree| Headers {
            include: tree.include.clone(),
            version: tree.version,
        })
    };
    Ok(Slurm {
        public: public.or_else(of_tree),
        internal,
    })
}

/// `SLURM_VERSION_NUMBER` of `DIR/slurm/slurm_version.h`.
fn version(dir: &Path) -> Result<u32, String> {
    let path = dir.join("slurm/slurm_version.h");
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| {
        format!(
            "{}: {error}; a source tree has it once ./configure has run, \
             an installation when Slurm's development package is there",
            path.display()
        )
    })?;
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("#define"))
        .filter_map(|line| line.trim().strip_prefix("SLURM_VERSION_NUMBER"))
        .find_map(|value| u32::from_str_radix(value.trim().strip_prefix("0x")?, 16).ok())
        .ok_or_else(|| {
            format!(
                "{}: no line `#define SLURM_VERSION_NUMBER 0x…`",
                path.display()
            )
        })
}
