//! Slurm's source of the very version that runs: fetched from Debian, unpacked and configured.
//!
//! Only headers and `config.h` are needed, so nothing is compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::apt::{Apt, MIRROR_HINT};
use crate::fsx;
use crate::paths::Paths;
use crate::rootfs::Root;
use crate::run::Cmd;
use crate::step::Step;
use crate::version::Version;

/// Debian's name for Slurm's source package.
const PACKAGE: &str = "slurm-wlm";
/// In the cache: the fetched set is complete; its text is what to unpack.
const COMPLETE: &str = ".complete";
/// In the cache: the archives have not this version.
const ABSENT: &str = ".absent";
/// How long a setup believes that note.
const LOOK_AGAIN: Duration = Duration::from_secs(24 * 3600);
/// In `target/slurm/<version>`: configured to the end.
const CONFIGURED: &str = ".configured";

/// A Slurm source tree and the folder it was configured in.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// The tree, with META in it.
    pub(crate) src: PathBuf,
    /// The folder with `config.h` and `slurm/slurm_version.h`.
    pub(crate) build: PathBuf,
    /// Its version.
    pub(crate) version: Version,
}

impl Tree {
    /// The tree that setup made for a version.
    pub(crate) fn find(paths: &Paths, version: Version) -> Option<Self> {
        let dir = paths.slurm(&version.to_string());
        dir.join(CONFIGURED).is_file().then(|| Self {
            src: dir.join("src"),
            build: dir.join("build"),
            version,
        })
    }

    /// The tree that the variables SLURM_SRC and SLURM_BUILD name, if they do.
    pub(crate) fn of_env() -> Result<Option<Own>> {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(src) = var("SLURM_SRC") else {
            if var("SLURM_BUILD").is_some() {
                bail!("SLURM_BUILD is set and SLURM_SRC is not: set both, or neither");
            }
            return Ok(None);
        };
        Own::new(Path::new(&src), var("SLURM_BUILD").map(PathBuf::from)).map(Some)
    }
}

/// A source tree of the admin's own, which may still have to be configured.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    src: PathBuf,
    build: Option<PathBuf>,
    /// Its version.
    pub(crate) version: Version,
}

impl Own {
    /// Checks that the folders are what they should be.
    pub(crate) fn new(src: &Path, build: Option<PathBuf>) -> Result<Self> {
        let src = src
            .canonicalize()
            .with_context(|| format!("cannot read Slurm's source {}", src.display()))?;
        let version = Version::of_source(&src)?;
        let build = match build {
            Some(build) => Some(
                build
                    .canonicalize()
                    .with_context(|| format!("cannot read Slurm's build {}", build.display()))?,
            ),
            None => src.join("config.h").is_file().then(|| src.clone()),
        };
        if let Some(build) = &build {
            if !build.join("config.h").is_file() {
                bail!(
                    "{} has no config.h: it is not a folder that Slurm was configured in",
                    build.display()
                );
            }
            let configured = Version::of_headers(build)?;
            if configured != version {
                bail!(
                    "the source tree {} is Slurm {version}, but {} was configured from Slurm \
                     {configured}",
                    src.display(),
                    build.display()
                );
            }
        }
        Ok(Self {
            src,
            build,
            version,
        })
    }

    /// The tree, configured under target/ if its owner has not done so.
    pub(crate) fn configured(self, paths: &Paths, step: &Step<'_>) -> Result<Tree> {
        let Self {
            src,
            build,
            version,
        } = self;
        let build = match build {
            Some(build) => build,
            None => {
                let build = paths.slurm(&format!("{version}-own")).join("build");
                let same = fs::read_to_string(build.join(CONFIGURED))
                    .is_ok_and(|of| of == src.display().to_string());
                if !same {
                    step.note(&format!(
                        "{} was not configured: configuring it in {}, with Debian's options. Where \
                         your daemons were built with others, name the folder they were configured in \
                         (--slurm-build, SLURM_BUILD)",
                        src.display(),
                        paths.short(&build).display()
                    ));
                    fsx::remove_dir(&build)?;
                    fsx::make_dir(&build)?;
                    run_configure(&src, &build, step)?;
                    fsx::write_atomic(&build.join(CONFIGURED), src.display().to_string())?;
                }
                build
            }
        };
        Ok(Tree {
            src,
            build,
            version,
        })
    }
}

/// What was fetched, for a remark to the person who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// Upstream's tarball and Debian's patches.
    Patched,
    /// Upstream's tarball only.
    Bare,
}

/// Whether the cache has the source of a version.
pub(crate) fn is_fetched(paths: &Paths, version: Version) -> bool {
    fs::read_to_string(cached(paths, version).join(COMPLETE))
        .is_ok_and(|note| fsx::value(&note, "tarball=").is_some())
}

fn cached(paths: &Paths, version: Version) -> PathBuf {
    paths.cache.join("src").join(version.to_string())
}

/// Whether a run of the last day found that the archives have not the source of a version.
pub(crate) fn is_given_up(paths: &Paths, version: Version) -> bool {
    let noted = fs::metadata(cached(paths, version).join(ABSENT)).and_then(|meta| meta.modified());
    noted.is_ok_and(|when| when.elapsed().is_ok_and(|age| age < LOOK_AGAIN))
}

/// Notes that the archives have not the source of a version, and why.
pub(crate) fn give_up(paths: &Paths, version: Version, why: &anyhow::Error) -> Result<()> {
    fsx::write_atomic(&cached(paths, version).join(ABSENT), format!("{why:#}\n"))
}

/// Fetches the source of exactly the root's version into the cache: the whole source package, or
/// upstream's tarball where the archives lack Debian's patches (which change no struct that a
/// plugin reads).
pub(crate) fn fetch(paths: &Paths, root: &Root, apt: &Apt, step: &Step<'_>) -> Result<Fetched> {
    let version = root.slurm;
    let dir = cached(paths, version);
    fsx::make_dir(&dir)?;
    let mut known = apt.versions(&["showsrc", "--only-source"], PACKAGE)?;
    known.retain(|package| Version::of_package(package) == Some(version));
    // The version that the root has first.
    known.sort_by_key(|package| *package != root.package);
    if known.is_empty() {
        bail!(
            "the archives have no source of Slurm {version} (package {PACKAGE}), which the root \
             {} runs. Name a source tree of that version instead: SLURM_SRC=<folder with META>",
            root.dir.display()
        );
    }
    // The whole set, from the first archive that has it whole; `--tar-only` and `--diff-only`
    // bring the parts from different archives. apt checks sums, also of files that are there.
    let get = |part: &[&str]| -> Result<&String> {
        let mut last = None;
        for package in &known {
            step.at(package);
            let mut args = vec!["source", "--download-only"];
            args.extend(part);
            let what = format!("{PACKAGE}={package}");
            args.push(&what);
            for cmd in apt.get_each(&args) {
                match cmd.dir(&dir).hint(MIRROR_HINT).run(step) {
                    Ok(()) => return Ok(package),
                    Err(error) => last = Some(error),
                }
                crate::interrupt::check()?;
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("no archive to ask")))
            .with_context(|| format!("cannot fetch the source of Slurm {version}"))
    };
    if get(&[]).is_err() {
        crate::interrupt::check()?;
        get(&["--tar-only"])?;
        if get(&["--diff-only"]).is_err() {
            crate::interrupt::check()?;
        }
    }
    let tarball = file_in(&dir, ".orig.tar.")?.context("apt-get fetched no tarball")?;
    let patches = file_in(&dir, ".debian.tar.")?;
    let fetched = if patches.is_some() {
        Fetched::Patched
    } else {
        Fetched::Bare
    };
    let text = format!(
        "tarball={tarball}\npatches={}\n",
        patches.unwrap_or_default()
    );
    fsx::write_atomic(&dir.join(COMPLETE), text)?;
    Ok(fetched)
}

fn file_in(dir: &Path, part: &str) -> Result<Option<String>> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .with_context(|| format!("cannot read {}", dir.display()))?
        .filter_map(|entry| {
            entry
                .ok()
                .map(|e| e.file_name().to_string_lossy().into_owned())
        })
        .filter(|name| name.contains(part) && !name.ends_with(".asc"))
        .collect();
    names.sort();
    Ok(names.pop())
}

/// Unpacks the fetched source into `target/slurm/<version>/src` and configures it in `build`
/// beside it.
pub(crate) fn configure(paths: &Paths, version: Version, step: &Step<'_>) -> Result<Tree> {
    let cache = cached(paths, version);
    let what = fs::read_to_string(cache.join(COMPLETE)).context("the source is not fetched")?;
    let dir = paths.slurm(&version.to_string());
    let partial = paths.slurm(&format!(".{version}.partial"));
    fsx::remove_dir(&partial)?;
    fsx::make_dir(&partial)?;
    let made = unpack(&cache, &what, &partial.join("src"), step)
        .and_then(|()| check_version(&partial.join("src"), version))
        .and_then(|()| {
            fsx::make_dir(&partial.join("build"))?;
            run_configure(Path::new("../src"), &partial.join("build"), step)
        })
        .and_then(|()| fsx::write_atomic(&partial.join(CONFIGURED), what));
    if let Err(error) = made {
        fsx::remove_dir(&partial)?;
        return Err(error);
    }
    fsx::remove_dir(&dir)?;
    fs::rename(&partial, &dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Tree::find(paths, version).context("the configured source has no stamp")
}

/// Unpacks what the note `what` names, and applies Debian's patches if they are among it.
fn unpack(cache: &Path, what: &str, src: &Path, step: &Step<'_>) -> Result<()> {
    let hint = format!(
        "the download may be damaged: remove {} and run the same command again",
        cache.display()
    );
    fsx::make_dir(src)?;
    let tar = |name: &str, strip: &[&str]| {
        Cmd::new("tar")
            .args(["--no-same-owner", "-xf"])
            .arg(cache.join(name))
            .arg("-C")
            .arg(src)
            .args(strip)
            .hint(&hint)
            .run(step)
    };
    tar(
        fsx::value(what, "tarball=").context("no tarball is noted")?,
        &["--strip-components=1"],
    )?;
    let Some(patches) = fsx::value(what, "patches=").filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    tar(patches, &[])?;
    let dir = src.join("debian/patches");
    let series = fs::read_to_string(dir.join("series")).unwrap_or_default();
    for name in in_series(&series) {
        Cmd::new("patch")
            .args(["-p1", "--batch", "--forward", "-i"])
            .arg(dir.join(name))
            .dir(src)
            .hint(&hint)
            .run(step)?;
    }
    Ok(())
}

/// The patches that a quilt series names.
fn in_series(series: &str) -> impl Iterator<Item = &str> {
    series
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| !name.starts_with('#'))
}

fn check_version(src: &Path, version: Version) -> Result<()> {
    let found = Version::of_source(src)?;
    if found != version {
        bail!("the fetched source is Slurm {found}, but the root runs Slurm {version}");
    }
    Ok(())
}

/// Configures out of tree, with the options of Debian's build that headers can see.
fn run_configure(src: &Path, build: &Path, step: &Step<'_>) -> Result<()> {
    Cmd::new(src.join("configure"))
        .args([
            "--prefix=/usr",
            "--sysconfdir=/etc/slurm",
            "--enable-multiple-slurmd",
        ])
        .args(["--disable-dependency-tracking", "--disable-maintainer-mode"])
        .dir(build)
        .hint(
            "the log names the program or header that Slurm's configure misses; install it and run \
             the same command again",
        )
        .run(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(dir: &Path, version: &str) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("META"), format!("  Version:\t{version}\n")).unwrap();
    }

    fn configured(dir: &Path, number: &str) {
        fs::create_dir_all(dir.join("slurm")).unwrap();
        fs::write(dir.join("config.h"), "").unwrap();
        fs::write(
            dir.join("slurm/slurm_version.h"),
            format!("#define SLURM_VERSION_NUMBER {number}\n"),
        )
        .unwrap();
    }

    #[test]
    fn an_own_tree_is_checked_before_it_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let (src, build) = (dir.path().join("src"), dir.path().join("build"));
        assert!(
            Own::new(&src, None)
                .unwrap_err()
                .to_string()
                .contains("cannot read")
        );
        tree(&src, "24.11.5");
        assert_eq!(Own::new(&src, None).unwrap().build, None);
        fs::create_dir_all(&build).unwrap();
        let error = Own::new(&src, Some(build.clone())).unwrap_err().to_string();
        assert!(error.contains("config.h"), "{error}");
        configured(&build, "0x180b04");
        let error = Own::new(&src, Some(build.clone())).unwrap_err().to_string();
        assert!(
            error.contains("24.11.5") && error.contains("24.11.4"),
            "{error}"
        );
        configured(&build, "0x180b05");
        let own = Own::new(&src, Some(build)).unwrap();
        assert_eq!(own.version.to_string(), "24.11.5");
    }

    #[test]
    fn a_series_may_have_remarks_and_options() {
        let series = "# first\nsonames.patch\n\nexit.patch -p1\n#off.patch\n";
        assert_eq!(
            in_series(series).collect::<Vec<_>>(),
            ["sonames.patch", "exit.patch"]
        );
    }

    #[test]
    fn a_tree_configured_in_place_is_its_own_build() {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path(), "22.05.8");
        configured(dir.path(), "0x160508");
        let own = Own::new(dir.path(), None).unwrap();
        assert_eq!(own.build, Some(dir.path().canonicalize().unwrap()));
    }
}
