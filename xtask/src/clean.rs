//! `cargo xtask clean`: removes the cache.

use std::fs;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::fsx;
use crate::lock;
use crate::paths::Paths;
use crate::run::Cmd;
use crate::step::Progress;
use crate::sudo;

/// Remove the cache of downloads and Debian roots that clones share.
///
/// Removes $XDG_CACHE_HOME/sgpu, after a look that no cluster uses it; asks first, and without a terminal wants --yes.
/// What is under target/ is cargo's to remove: cargo clean.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// What setup and the test clusters put into the cache, and so all that clean removes from it.
const OURS: [&str; 7] = ["apt", "debs", "guest", "mariadb", "roots", "src", "stock"];

/// Runs the command.
pub(crate) fn main(args: &Args) -> Result<()> {
    let paths = Paths::find()?;
    let cache = &paths.cache;
    if !cache.is_dir() {
        eprintln!("nothing to remove: {} is not there", cache.display());
        return Ok(());
    }
    let lock = lock::take(&paths)?;
    let users = users_of(cache);
    if !users.is_empty() {
        bail!(
            "{} is in use: {}. End the cluster or unmount it first; nothing was removed",
            cache.display(),
            users.join("; ")
        );
    }
    if !args.yes {
        if !std::io::stdin().is_terminal() {
            bail!(
                "{} is shared by all clones and nobody is there to be asked: to remove it, say --yes; \
                 nothing was removed",
                cache.display()
            );
        }
        if !agreed(cache)? {
            eprintln!("nothing was removed");
            return Ok(());
        }
    }
    sudo::ready("to remove the roots")?;
    let progress = Progress::new(1, paths.logs());
    let step = progress.step("clean", format!("removing {}", cache.display()));
    let freed = size(cache);
    for name in OURS {
        let dir = cache.join(name);
        if dir.exists() {
            sudo::as_root(
                Cmd::new("rm")
                    .args(["-rf", "--one-file-system", "--"])
                    .arg(&dir),
            )
            .run(&step)?;
        }
    }
    fsx::remove_file(&cache.join("lock"))?;
    drop(lock);
    // Kept if it holds anything that is not ours.
    drop(fs::remove_dir(cache));
    step.done_with(&format!("freed {} MB", freed / 1_000_000));
    Ok(())
}

fn agreed(cache: &Path) -> Result<bool> {
    eprint!(
        "remove {} ({} MB)? [y/N] ",
        cache.display(),
        size(cache) / 1_000_000
    );
    std::io::stderr().flush().context("cannot ask")?;
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Who has the cache mounted or runs in one of its roots. Clusters have mount namespaces of their
/// own, so each process is looked at.
fn users_of(cache: &Path) -> Vec<String> {
    let mut users = Vec::new();
    let Ok(processes) = fs::read_dir("/proc") else {
        return users;
    };
    for dir in processes.flatten().map(|entry| entry.path()) {
        let Some(pid) = dir
            .file_name()
            .and_then(|name| name.to_str()?.parse::<u32>().ok())
        else {
            continue;
        };
        let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
        let inside =
            |link: &str| fs::read_link(dir.join(link)).is_ok_and(|at| at.starts_with(cache));
        if inside("root") || inside("exe") {
            users.push(format!("process {pid} ({}) runs in it", name.trim()));
            continue;
        }
        let mounts = fs::read_to_string(dir.join("mountinfo")).unwrap_or_default();
        if let Some(mount) = mount_under(&mounts, cache) {
            users.push(format!(
                "process {pid} ({}) has {} mounted",
                name.trim(),
                mount.display()
            ));
        }
    }
    users.truncate(5);
    users
}

/// The first mount point under a folder.
fn mount_under(mountinfo: &str, folder: &Path) -> Option<PathBuf> {
    mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|field| PathBuf::from(field.replace("\\040", " ")))
        .find(|mount| mount.starts_with(folder) && mount != folder)
}

/// The disk space of what is under a folder; what cannot be read counts nothing.
fn size(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_under_the_cache_are_seen() {
        let mounts = "22 28 0:21 / /proc rw - proc proc rw\n\
                      30 28 0:5 / /home/me/.cache/sgpu/roots/trixie/dev rw - devtmpfs dev rw\n";
        let at = |folder: &str| mount_under(mounts, Path::new(folder));
        assert_eq!(
            at("/home/me/.cache/sgpu"),
            Some("/home/me/.cache/sgpu/roots/trixie/dev".into())
        );
        assert_eq!(at("/home/me/.cache/sg"), None);
        assert_eq!(at("/proc"), None);
    }
}
