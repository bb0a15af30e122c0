//! One setup or clean at a time: the lock of the cache.

use std::fs::{File, OpenOptions};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::fsx;
use crate::interrupt;
use crate::paths::Paths;

/// The held lock; the kernel lets go of it when we end, however we end.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: Flock<File>,
}

/// Takes the lock, waiting for its holder.
pub(crate) fn take(paths: &Paths) -> Result<Lock> {
    fsx::make_dir(&paths.cache)?;
    let path = paths.cache.join("lock");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    let mut told = false;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => return Ok(Lock { _file: held }),
            Err((back, Errno::EWOULDBLOCK)) => {
                file = back;
                if !told {
                    eprintln!(
                        "another cargo xtask works on {}: waiting",
                        paths.cache.display()
                    );
                    told = true;
                }
                interrupt::check()?;
                std::thread::sleep(Duration::from_millis(200));
            }
            Err((_, error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
}
