//! A Debian root with one release's Slurm: shared by all clusters, never written to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Release, Result, Version, paths};

/// A root and what the harness needs to know of it.
#[derive(Clone, Debug)]
pub struct Root {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its Slurm.
    pub(crate) version: Version,
    /// The library folder, `/usr/lib/x86_64-linux-gnu` as a rule.
    pub(crate) libdir: String,
    /// Its /etc/passwd.
    passwd: String,
}

/// A numeric user and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Ids {
    pub(crate) const ROOT: Self = Self { uid: 0, gid: 0 };
}

impl Root {
    /// Finds the root of a release and reads its version from its daemons.
    ///
    /// # Errors
    /// When `cargo xtask setup` has not made it, or it holds another release.
    pub fn open(release: Release) -> Result<Self> {
        Self::open_kind(release, "")
    }

    /// The release's root with something more in it: `-torch` or `-frameworks`.
    pub(crate) fn open_kind(release: Release, kind: &str) -> Result<Self> {
        let chosen = std::env::var_os("SGPU_ROOTS").is_some();
        Self::open_in(&paths::roots()?, release, kind, chosen)
    }

    /// A root that somebody chose needs no stamp.
    fn open_in(roots: &Path, release: Release, kind: &str, chosen: bool) -> Result<Self> {
        let path = roots.join(format!("{}{kind}", release.suite()));
        if path.join("usr/sbin/slurmd").symlink_metadata().is_err()
            || !(chosen || path.join(".sgpu-root").is_file())
        {
            return Err(Error::NotSetUp(format!(
                "no root of Slurm {release} in {}",
                path.display()
            )));
        }
        if !nix::unistd::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let said = Command::new("chroot")
            .arg(&path)
            .args(["/usr/sbin/slurmd", "-V"])
            .output()
            .map_err(Error::file("start chroot in", &path))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = Version::parse(&said)
            .filter(|version| format!("{}.{:02}", version.major, version.minor) == release.name())
            .ok_or_else(|| {
                Error::NotSetUp(format!(
                    "{} has {:?} for Slurm {release}",
                    path.display(),
                    said.trim()
                ))
            })?;
        let libdir = libdir(&path)?;
        let file = path.join("etc/passwd");
        let passwd = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        Ok(Self {
            path,
            version,
            libdir,
            passwd,
        })
    }

    /// Its full version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its library folder, `/usr/lib/x86_64-linux-gnu` as a rule.
    #[must_use]
    pub fn libdir(&self) -> &str {
        &self.libdir
    }

    /// The ids of one of its system users.
    pub(crate) fn ids(&self, user: &str) -> Result<Ids> {
        ids(&self.passwd, user)
            .ok_or_else(|| Error::NotSetUp(format!("{} has no user {user}", self.path.display())))
    }
}

/// The folder that has `slurm-wlm/`, Debian's place for Slurm's plugins.
fn libdir(root: &Path) -> Result<String> {
    let lib = root.join("usr/lib");
    let mut found = fs::read_dir(&lib)
        .map_err(Error::file("read", &lib))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| lib.join(name).join("slurm-wlm").is_dir());
    found
        .next()
        .map(|name| format!("/usr/lib/{name}"))
        .ok_or_else(|| Error::NotSetUp(format!("{} has no Slurm plugins", root.display())))
}

fn ids(passwd: &str, user: &str) -> Option<Ids> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == user).then_some(())?;
        let uid = fields.nth(1)?.parse().ok()?;
        Some(Ids {
            uid,
            gid: fields.next()?.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_root_the_error_says_what_to_run() {
        let error =
            Root::open_in(Path::new("/nonexistent"), Release::Slurm24_11, "", false).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("24.11") && text.contains("run `cargo xtask setup`"),
            "{text}"
        );
    }

    #[test]
    fn ids_come_from_passwd() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nmunge:x:101:102::/nonexistent:/bin/false\n";
        assert_eq!(ids(passwd, "munge"), Some(Ids { uid: 101, gid: 102 }));
        assert_eq!(ids(passwd, "mung"), None);
    }
}
