//! MariaDB for slurmdbd, on the controller.
//!
//! Its data folder, with slurmdbd's tables in it, is made once for a root and kept in the cache; a
//! cluster starts from a copy in memory. MariaDB knows its clients by the user they run as.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::{Flock, FlockArg};

use crate::{Error, Result, Root, paths};

/// The folder inside.
pub(crate) const DATA: &str = "/var/lib/sgpu-mariadb";
/// The socket's folder, where MariaDB's clients look.
pub(crate) const RUN: &str = "/run/mysqld";

/// Options of both `mariadb-install-db` and `mariadbd`.
pub(crate) const OPTIONS: [&str; 6] = [
    "--no-defaults",
    "--user=mysql",
    "--datadir=/var/lib/sgpu-mariadb",
    "--innodb-log-file-size=4M",
    // slurmdbd logs an error when these two are smaller.
    "--innodb-buffer-pool-size=128M",
    "--innodb-lock-wait-timeout=900",
];

/// Options of `mariadbd`: no network, and no waiting for a disk that it does not have.
pub(crate) const SERVER_OPTIONS: [&str; 6] = [
    "--skip-networking",
    "--skip-name-resolve",
    "--skip-log-bin",
    "--innodb-flush-log-at-trx-commit=0",
    "--socket=/run/mysqld/mysqld.sock",
    // slurmdbd logs an error when it is on; not every MariaDB knows it.
    "--loose-innodb-snapshot-isolation=OFF",
];

/// What slurmdbd needs before its first start.
pub(crate) const GRANT: &str = "create database slurm_acct_db; \
    create user slurm@localhost identified via unix_socket; \
    grant all on slurm_acct_db.* to slurm@localhost;";

/// The cached data folder of a root: named after what made it.
pub(crate) fn cached(root: &Root) -> Result<PathBuf> {
    let suite = root.path.file_name().unwrap_or_default().to_string_lossy();
    Ok(paths::cache()?
        .join("mariadb")
        .join(format!("{suite}-slurm-{}", root.version)))
}

/// A path beside a data folder; its version has dots, so `with_extension` would cut it.
pub(crate) fn beside(cached: &Path, extension: &str) -> PathBuf {
    let mut path = cached.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}

/// Held by the one harness that makes a data folder.
pub(crate) fn lock(cached: &Path) -> Result<Flock<fs::File>> {
    let path = beside(cached, "lock");
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Error::file("make", parent))?;
    }
    let file = fs::File::create(&path).map_err(Error::file("make", &path))?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| Error::file("lock", &path)(errno.into()))
}

/// Copies a data folder with its owners.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp")
        .args(["-a", "--sparse=always", "--no-target-directory"])
        .args([from, to])
        .status()
        .map_err(Error::file("copy", from))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Program(format!(
        "cp -a {} {}: {status}",
        from.display(),
        to.display()
    )))
}
