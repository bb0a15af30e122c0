//! A daemon of a cluster.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cage::{Cage, Process};
use crate::exec::Exec;
use crate::{Error, Result};

/// A daemon: `nsenter` on the host, the program itself inside.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// `slurmctld`, `slurmd-<node>`.
    pub(crate) name: String,
    machine: String,
    pid_file: Option<String>,
    child: Child,
    ended: Option<ExitStatus>,
    /// It leaves the foreground, so the end of its first process is none.
    forks: bool,
    /// It was told to end.
    told: bool,
}

/// How a daemon is started.
pub(crate) struct Start<'c> {
    pub(crate) name: String,
    pub(crate) machine: String,
    pub(crate) exec: Exec<'c>,
    /// Where it writes its pid, a path inside.
    pub(crate) pid_file: Option<String>,
    /// It leaves the foreground.
    pub(crate) forks: bool,
}

impl Daemon {
    /// Starts it; its standard output and error go to `<logs>/<name>.out`.
    pub(crate) fn start(start: Start<'_>, logs: &Path) -> Result<Self> {
        let path = logs.join(format!("{}.out", start.name));
        let out = fs::File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(Error::file("open", &path))?;
        let err = out.try_clone().map_err(Error::file("open", &path))?;
        let mut command = start.exec.core_dumps().no_timeout().command()?;
        // A terminal's Ctrl-C is for the tests; the daemons end with their cage.
        command
            .process_group(0)
            .stdout(out)
            .stderr(err)
            .stdin(Stdio::null());
        let child = command.spawn().map_err(|error| {
            Error::Program(format!("start nsenter for {}: {error}", start.name))
        })?;
        Ok(Self {
            name: start.name,
            machine: start.machine,
            pid_file: start.pid_file,
            child,
            ended: None,
            forks: start.forks,
            told: false,
        })
    }

    /// Its process: as its pid file says, else the child of its `nsenter`.
    pub(crate) fn process(&self, cage: &Cage) -> Option<Process> {
        let processes = cage.processes();
        let nsenter = i32::try_from(self.child.id()).unwrap_or_default();
        let named = self.pid_file.as_ref().and_then(|file| {
            let text = fs::read_to_string(cage.path(&self.machine, file).ok()?).ok()?;
            let pid: i32 = text.trim().parse().ok()?;
            processes
                .iter()
                .find(|process| process.pid == pid && !process.zombie)
        });
        named
            .or_else(|| processes.iter().find(|process| process.parent == nsenter))
            .cloned()
    }

    /// Sends its process a signal; false when there is none.
    pub(crate) fn signal(&mut self, cage: &Cage, signal: Signal) -> bool {
        if matches!(signal, Signal::SIGTERM | Signal::SIGKILL | Signal::SIGINT) {
            self.told = true;
        }
        let Some(process) = self.process(cage) else {
            return false;
        };
        kill(Pid::from_raw(process.host_pid), signal).is_ok()
    }

    /// How it ended, when it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// What is wrong with how it ended: it was not told to, or it crashed.
    pub(crate) fn fault(&mut self) -> Option<String> {
        let status = self.ended()?;
        // 26.05's slurmdbd wakes its threads by SIGUSR1 while it ends, and at times dies of it.
        let endings = [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGUSR1];
        let by_signal = endings
            .iter()
            .any(|signal| status.signal() == Some(*signal as i32));
        let fine = if self.told {
            status.success() || by_signal
        } else {
            self.forks && status.success()
        };
        let how = if self.told {
            "ended badly"
        } else {
            "ended by itself"
        };
        (!fine).then(|| format!("{} {how}: {status}", self.name))
    }

    /// It left the foreground and is gone, though nobody told it to end.
    pub(crate) fn is_lost(&mut self, cage: &Cage) -> bool {
        self.forks && !self.told && !self.runs(cage)
    }

    /// Whether its `nsenter` or its process is there.
    pub(crate) fn runs(&mut self, cage: &Cage) -> bool {
        self.ended().is_none() || self.process(cage).is_some()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The cage's end is the daemon's; only a daemon that is replaced in a living cage gets here
        // earlier, and it was waited for.
        if self.ended().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
