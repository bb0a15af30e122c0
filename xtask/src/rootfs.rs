//! Debian roots with a suite's own Slurm, munge and MariaDB in them, made by debootstrap.
//!
//! A root is made under another name and gets its own when complete, with the stamp file
//! `.sgpu-root` in it. debootstrap runs in mount and process namespaces of its own: whatever it
//! mounts or starts ends with it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::apt::{Apt, KEYRING, MIRROR_HINT, Mirrors};
use crate::fsx;
use crate::paths::Paths;
use crate::release::Release;
use crate::run::Cmd;
use crate::step::Step;
use crate::sudo;
use crate::version::Version;

/// What a test cluster runs in the root.
const PACKAGES: [&str; 15] = [
    "ca-certificates",
    "faketime",
    "libslurm-dev",
    "lua5.1",
    "mariadb-server",
    "munge",
    "procps",
    "python3-minimal",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "valgrind",
];
/// Packages that not every suite has.
const OPTIONAL: [&str; 2] = ["slurmrestd", "slurm-wlm-jwt-plugin"];

/// The file that says what a root is; only a complete one has it.
pub(crate) const STAMP: &str = ".sgpu-root";

/// A complete root.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// Where it is.
    pub(crate) dir: PathBuf,
    /// The Slurm in it.
    pub(crate) slurm: Version,
    /// That Slurm's Debian version.
    pub(crate) package: String,
}

impl Root {
    /// The release's root, if it is complete and made for the same list of packages.
    pub(crate) fn find(paths: &Paths, release: &Release) -> Option<Self> {
        let dir = paths.root(release.suite);
        let stamp = fs::read_to_string(dir.join(STAMP)).ok()?;
        Self::from_stamp(dir, &stamp)
    }

    fn from_stamp(dir: PathBuf, stamp: &str) -> Option<Self> {
        if fsx::value(stamp, "packages=") != Some(&PACKAGES.join(",")) {
            return None;
        }
        let slurm = Version::parse(fsx::value(stamp, "slurm=")?)?;
        let package = fsx::value(stamp, "slurm_package=")?.to_owned();
        Some(Self {
            dir,
            slurm,
            package,
        })
    }

    /// The public headers of the root's Slurm.
    pub(crate) fn include(&self) -> PathBuf {
        self.dir.join("usr/include")
    }
}

/// Makes the root of a release.
pub(crate) fn make(
    paths: &Paths,
    release: &Release,
    apt: &Apt,
    mirrors: &Mirrors,
    step: &Step<'_>,
) -> Result<Root> {
    offered(release, apt)?;
    let dir = paths.root(release.suite);
    let roots = dir
        .parent()
        .context("the cache has no folder for roots")?
        .to_owned();
    fsx::make_dir(&roots)?;
    // We hold the cache's lock, so whatever partial root is here was left by a killed run.
    let partial = roots.join(format!(".{}.partial", release.suite));
    fsx::remove_root_dir(&partial)?;
    let made = bootstrap(release, apt, mirrors, &partial, paths, step)
        .and_then(|()| stamp(release, &partial));
    if let Err(error) = made {
        fsx::remove_root_dir(&partial)?;
        return Err(error);
    }
    fsx::remove_root_dir(&dir)?;
    sudo::as_root(Cmd::new("mv").arg("-T").arg(&partial).arg(&dir)).output()?;
    fsx::remove_root_dir(&debs(paths, release))?;
    Root::find(paths, release).context("the new root has no stamp")
}

/// Stops before hundreds of megabytes are fetched for a Slurm that sgpu does not know.
fn offered(release: &Release, apt: &Apt) -> Result<()> {
    let versions: Vec<Version> = apt
        .versions(&["show"], "slurmd")?
        .iter()
        .filter_map(|package| Version::of_package(package))
        .collect();
    match versions.first() {
        Some(other) if !versions.iter().any(|one| one.is_of(release.name)) => {
            bail!("{}", unknown(release, *other))
        }
        _ => Ok(()),
    }
}

fn unknown(release: &Release, brought: Version) -> String {
    format!(
        "Debian {} brings Slurm {brought}, not {}: this version of sgpu does not know it",
        release.suite, release.name
    )
}

/// Packages that are already downloaded, for a run after a failed one.
fn debs(paths: &Paths, release: &Release) -> PathBuf {
    paths.cache.join("debs").join(release.suite)
}

fn bootstrap(
    release: &Release,
    apt: &Apt,
    mirrors: &Mirrors,
    partial: &Path,
    paths: &Paths,
    step: &Step<'_>,
) -> Result<()> {
    let mut include: Vec<&str> = PACKAGES.to_vec();
    include.extend(OPTIONAL.iter().filter(|name| apt.has_package(name)));
    let debs = debs(paths, release);
    fsx::make_dir(&debs)?;
    let scripts = Path::new("/usr/share/debootstrap/scripts");
    let script = (!scripts.join(release.suite).exists())
        .then_some(release.script)
        .flatten();
    let cmd = Cmd::new("debootstrap")
        .arg("--variant=minbase")
        .arg(format!("--keyring={KEYRING}"))
        .arg(format!("--cache-dir={}", debs.display()))
        .arg(format!("--include={}", include.join(",")))
        .arg(release.suite)
        .arg(partial)
        .arg(mirrors.for_debootstrap()?)
        .args(script.map(|name| scripts.join(name)))
        .under(&ISOLATED);
    let cmd = sudo::as_root(with_proxy(cmd)).hint(format!(
        "{MIRROR_HINT}. If the log speaks of unshare, mount or mknod instead, this is a container \
         without the rights to make a root: run it privileged"
    ));
    cmd.run(step)
}

/// Namespaces of its own, so that no mount and no process outlives debootstrap.
pub(crate) const ISOLATED: [&str; 9] = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// debootstrap reads proxies from the environment only, apt from its own settings too.
pub(crate) fn with_proxy(cmd: Cmd) -> Cmd {
    let mut outer = vec![
        "env".to_owned(),
        "DEBIAN_FRONTEND=noninteractive".to_owned(),
    ];
    outer.push("LC_ALL=C.UTF-8".to_owned());
    for (variable, setting) in [
        ("http_proxy", "Acquire::http::Proxy"),
        ("https_proxy", "Acquire::https::Proxy"),
    ] {
        let own = std::env::var(variable)
            .ok()
            .filter(|value| !value.is_empty());
        let value = own.or_else(|| {
            let line = Cmd::new("apt-config")
                .args(["shell", "P", setting])
                .output()
                .ok()?;
            let value = line
                .trim()
                .strip_prefix("P='")?
                .strip_suffix('\'')?
                .to_owned();
            (!value.is_empty() && value != "DIRECT").then_some(value)
        });
        // Set here, since sudo drops them.
        outer.extend(value.map(|value| format!("{variable}={value}")));
    }
    cmd.under(&outer)
}

fn stamp(release: &Release, partial: &Path) -> Result<()> {
    let package = installed_version(partial, "slurmd")?;
    let slurm = Version::of_package(&package)
        .with_context(|| format!("{package} is not a Slurm version"))?;
    if !slurm.is_of(release.name) {
        bail!("{}", unknown(release, slurm));
    }
    let text = format!(
        "suite={}\nslurm={slurm}\nslurm_package={package}\npackages={}\n",
        release.suite,
        PACKAGES.join(",")
    );
    // By a shell, since the folder is root's.
    let script =
        format!("rm -f \"$1\"/var/cache/apt/archives/*.deb && printf %s \"$2\" > \"$1\"/{STAMP}");
    let shell = Cmd::new("sh")
        .args(["-ec", &script, "sh"])
        .arg(partial)
        .arg(text);
    sudo::as_root(shell).output().map(drop)
}

/// A package's version in a root.
fn installed_version(root: &Path, package: &str) -> Result<String> {
    Cmd::new("dpkg-query")
        .arg(format!(
            "--admindir={}",
            root.join("var/lib/dpkg").display()
        ))
        .args(["-W", "-f", "${Version}", package])
        .output()
        .map(|version| version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_counts_for_its_list_of_packages_only() {
        let packages = PACKAGES.join(",");
        let stamp = format!(
            "suite=trixie\nslurm=24.11.5\nslurm_package=24.11.5-4+deb13u1\npackages={packages}\n"
        );
        let root = Root::from_stamp("/r".into(), &stamp).unwrap();
        assert_eq!(root.slurm.to_string(), "24.11.5");
        assert_eq!(root.package, "24.11.5-4+deb13u1");
        assert!(Root::from_stamp("/r".into(), &stamp.replace("slurmdbd", "other")).is_none());
        assert!(Root::from_stamp("/r".into(), "").is_none());
    }
}
