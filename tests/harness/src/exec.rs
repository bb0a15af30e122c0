//! Programs run inside a cluster.

use std::fmt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use crate::cage::Cage;
use crate::root::Ids;
use crate::{Error, Result};

/// Whom a program runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The administrator.
    Root,
    /// An ordinary user, uid 1000.
    Alice,
    /// Another ordinary user, uid 1001.
    Bob,
}

impl User {
    /// The ordinary users.
    pub(crate) const ORDINARY: [Self; 2] = [Self::Alice, Self::Bob];

    /// The user's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Alice => "alice",
            Self::Bob => "bob",
        }
    }

    /// The user's number; the group's is the same.
    #[must_use]
    pub fn uid(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::Alice => 1000,
            Self::Bob => 1001,
        }
    }

    /// The user's home, the same folder on all machines for ordinary users.
    #[must_use]
    pub fn home(self) -> &'static str {
        match self {
            Self::Root => "/root",
            Self::Alice => "/home/alice",
            Self::Bob => "/home/bob",
        }
    }
}

/// What a program did.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How it ended; 124 when its time was over.
    pub status: ExitStatus,
    /// What was run.
    pub command: String,
}

impl Output {
    /// The output of a program that must succeed.
    ///
    /// # Errors
    /// When it ended with anything but 0.
    pub fn ok(self) -> Result<Self> {
        if self.status.success() {
            Ok(self)
        } else {
            Err(Error::Program(self.to_string()))
        }
    }

    /// The output of a program that must fail.
    ///
    /// # Errors
    /// When it ended with 0.
    pub fn failed(self) -> Result<Self> {
        if self.status.success() {
            return Err(Error::Program(format!("should have failed: {self}")));
        }
        Ok(self)
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "`{}` ended with {}", self.command, self.status)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "--- {name}\n{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

/// A program to be run in a machine.
#[derive(Debug)]
#[must_use = "nothing runs before `run` or `spawn`"]
pub struct Exec<'c> {
    cage: &'c Cage,
    machine: String,
    /// The variables of the cluster's clock, `NAME=value`.
    clock: &'c [String],
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    account: Account,
    dir: Option<String>,
    timeout: Option<Duration>,
    core_dumps: bool,
}

/// A user as a program needs it.
#[derive(Clone, Debug)]
struct Account {
    name: String,
    home: String,
    ids: Ids,
}

impl Account {
    fn of(user: User) -> Self {
        let ids = Ids {
            uid: user.uid(),
            gid: user.uid(),
        };
        Self {
            name: user.name().to_owned(),
            home: user.home().to_owned(),
            ids,
        }
    }
}

impl<'c> Exec<'c> {
    pub(crate) fn new(cage: &'c Cage, machine: &str, clock: &'c [String], program: &str) -> Self {
        Self {
            cage,
            machine: machine.to_owned(),
            clock,
            program: program.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            account: Account::of(User::Root),
            dir: None,
            timeout: Some(Duration::from_secs(60)),
            core_dumps: false,
        }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable; nothing else comes from the harness' own environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs it as somebody; root otherwise.
    pub fn user(mut self, user: User) -> Self {
        self.account = Account::of(user);
        self
    }

    /// Runs it as one of the system's users.
    pub(crate) fn system_user(mut self, name: &str, ids: Ids) -> Self {
        self.account = Account {
            name: name.to_owned(),
            home: "/".to_owned(),
            ids,
        };
        self
    }

    /// Runs it on a node; on the controller otherwise.
    pub fn on(mut self, machine: &str) -> Self {
        machine.clone_into(&mut self.machine);
        self
    }

    /// Runs it in a folder; in the user's home otherwise.
    pub fn dir(mut self, dir: &str) -> Self {
        self.dir = Some(dir.to_owned());
        self
    }

    /// Ends it after a time, with status 124; 60 seconds otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn no_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// Lets a crash write a core file, which teardown reports.
    pub fn core_dumps(mut self) -> Self {
        self.core_dumps = true;
        self
    }

    fn shown(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words
            .map(|word| crate::shell::quote(word))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The host's command that enters the machine and runs it.
    ///
    /// # Errors
    /// When there is no such machine.
    pub fn command(&self) -> Result<std::process::Command> {
        let mut command = self.cage.enter(&self.machine)?;
        if self.core_dumps {
            command.args(["/bin/sh", "-c", "ulimit -c unlimited; exec \"$@\"", "sh"]);
        }
        let Account { name, home, ids } = &self.account;
        let dir = self.dir.as_deref().unwrap_or(home);
        command.args(["/usr/bin/env", "-i", "-C", dir]);
        command.args([
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG=C.UTF-8",
            "SHELL=/bin/bash",
        ]);
        command.arg(format!("HOME={home}"));
        command.args([format!("USER={name}"), format!("LOGNAME={name}")]);
        command.args(
            self.env
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
        if ids.uid != 0 {
            command.arg("setpriv");
            command.args([
                format!("--reuid={}", ids.uid),
                format!("--regid={}", ids.gid),
            ]);
            command.args(["--init-groups", "--"]);
        }
        if let Some(timeout) = self.timeout {
            command.args([
                "timeout",
                "-k",
                "2",
                &format!("{:.3}", timeout.as_secs_f64()),
            ]);
        }
        // Behind what counts the machine's seconds.
        if !self.clock.is_empty() {
            command.arg("/usr/bin/env").args(self.clock);
        }
        command.arg(&self.program).args(&self.args);
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it cannot be started; a program that fails is an [`Output`].
    pub fn run(&self) -> Result<Output> {
        let output = self
            .command()?
            .output()
            .map_err(|error| self.unstarted(&error))?;
        Ok(Output {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: output.status,
            command: self.shown(),
        })
    }

    /// Starts it, its output piped.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self) -> Result<std::process::Child> {
        let mut command = self.command()?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| self.unstarted(&error))
    }

    fn unstarted(&self, error: &std::io::Error) -> Error {
        Error::Program(format!("start nsenter for `{}`: {error}", self.shown()))
    }
}
