//! The task: a child of the relay.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use crate::sys::{self, Ended};

/// The task, and the signals that come for it.
#[derive(Debug)]
pub(crate) struct Task {
    /// Its process.
    pub(crate) pid: i32,
    /// Where this process' own signals are read from. All are blocked from before the task starts, so none is
    /// lost.
    pub(crate) signals: OwnedFd,
}

impl Task {
    /// Starts the task, which inherits all that this process has: descriptors, process group, ignored and
    /// blocked signals.
    pub(crate) fn start(command: &[&CStr]) -> io::Result<Self> {
        let blocked = sys::block_all();
        let started = sys::signal_queue().and_then(|signals| {
            let pid = sys::spawn(command, blocked)?;
            Ok(Self { pid, signals })
        });
        match started {
            Ok(_) => sys::stop_ignoring(),
            Err(_) => sys::block(blocked),
        }
        started
    }

    /// Takes a task that runs already over.
    pub(crate) fn adopt(pid: i32) -> io::Result<Self> {
        sys::block_all();
        sys::stop_ignoring();
        Ok(Self {
            pid,
            signals: sys::signal_queue()?,
        })
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&self) -> Option<Ended> {
        // What is no child of ours has been lost sight of: an end without a code.
        sys::ended(self.pid).unwrap_or(Some(Ended::Exit(0)))
    }
}
