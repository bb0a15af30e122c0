//! Running other programs: output to the step's log, its last lines and a hint on failure, an
//! end on Ctrl-C.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::interrupt;
use crate::step::Step;

/// How many lines of a failed program's log are shown.
const TAIL: usize = 20;
/// How long a program may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an interrupted program's clusters may take to clean up: seconds, as a rule.
const CLEANING: Duration = Duration::from_secs(60);

/// A program to run.
#[derive(Clone, Debug)]
pub(crate) struct Cmd {
    program: OsString,
    args: Vec<OsString>,
    envs: Vec<(OsString, Option<OsString>)>,
    dir: Option<PathBuf>,
    hint: String,
    lifeline: bool,
}

/// What a failed program leaves for a person to read.
#[derive(Debug)]
pub(crate) struct Failed {
    step: String,
    command: String,
    status: String,
    log: PathBuf,
    tail: String,
    hint: String,
}

impl Failed {
    /// The log's last lines.
    pub(crate) fn tail(&self) -> &str {
        &self.tail
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} failed ({})\n", self.step, self.status)?;
        writeln!(f, "  command: {}", self.command)?;
        writeln!(f, "  log:     {}, its last lines:", self.log.display())?;
        for line in self.tail.lines() {
            writeln!(f, "    | {line}")?;
        }
        write!(f, "\n  what to do: {}", self.hint)
    }
}

impl std::error::Error for Failed {}

impl Cmd {
    /// A program without arguments yet.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            envs: Vec::new(),
            dir: None,
            hint: "read the log, mend the cause, and run the same command again; finished parts \
                   are kept"
                .to_owned(),
            lifeline: false,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.envs
            .push((name.into(), Some(value.as_ref().to_owned())));
        self
    }

    /// Unsets a variable.
    #[must_use]
    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.envs.push((name.into(), None));
        self
    }

    /// Sets the folder to run in.
    #[must_use]
    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_owned());
        self
    }

    /// Says what a person can do when the program fails.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Gives the program a standard input that ends when we do, however we end; [`Cmd::run_shown`] only.
    #[must_use]
    pub(crate) fn lifeline(mut self) -> Self {
        self.lifeline = true;
        self
    }

    /// The same, started by another program (`sudo`, `unshare`).
    #[must_use]
    pub(crate) fn under<S: AsRef<OsStr>>(mut self, outer: &[S]) -> Self {
        let mut words: Vec<OsString> = outer.iter().map(|s| s.as_ref().to_owned()).collect();
        if words.is_empty() {
            return self;
        }
        let program = words.remove(0);
        words.push(std::mem::replace(&mut self.program, program));
        words.append(&mut self.args);
        self.args = words;
        self
    }

    /// Runs to the end, output to the step's log.
    pub(crate) fn run(&self, step: &Step<'_>) -> Result<()> {
        let mut log = self.open_log(step.log())?;
        let start = log.metadata().map_or(0, |meta| meta.len());
        writeln!(log, "$ {self}").context("cannot write the log")?;
        let errors = log.try_clone().context("cannot share the log")?;
        let mut child = self.spawn(Stdio::from(log), Stdio::from(errors))?;
        let status = wait(&mut child, Some(step))?;
        self.judge(status, step, start)
    }

    /// Runs to the end with the terminal's own output, for programs whose output people want to
    /// see as it comes (test runs). An interrupted one is left when all that it started has ended:
    /// clusters clean up after the program that made them.
    pub(crate) fn run_shown(&self) -> Result<ExitStatus> {
        // What the program leaves behind becomes our child, so that it can be waited for.
        let ours = prctl::set_child_subreaper(true).is_ok();
        let mut child = self.spawn(Stdio::inherit(), Stdio::inherit())?;
        let lifeline = child.stdin.take();
        let outcome = wait(&mut child, None);
        drop(lifeline);
        if outcome.is_err() && ours {
            await_rest();
        }
        outcome
    }

    /// Runs a short program to the end and gives back its output; errors go into the message.
    pub(crate) fn output(&self) -> Result<String> {
        let out = self
            .command()
            .output()
            .with_context(|| format!("cannot start {self}"))?;
        if !out.status.success() {
            bail!(
                "{self}: {}: {}",
                out.status,
                String::from_utf8_lossy(&out.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    fn open_log(&self, path: &Path) -> Result<File> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null());
        for (name, value) in &self.envs {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }

    fn spawn(&self, out: Stdio, err: Stdio) -> Result<Child> {
        interrupt::check()?;
        let mut command = self.command();
        command.stdout(out).stderr(err);
        if self.lifeline {
            command.stdin(Stdio::piped());
        }
        if own_group() {
            command.process_group(0);
        }
        command
            .spawn()
            .with_context(|| format!("cannot start {self}"))
    }

    fn judge(&self, status: ExitStatus, step: &Step<'_>, start: u64) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        interrupt::check()?;
        let log = step.log();
        let bytes = fs::read(log).unwrap_or_default();
        let ours = usize::try_from(start)
            .ok()
            .and_then(|from| bytes.get(from..));
        Err(Failed {
            step: step.title().to_owned(),
            command: self.to_string(),
            status: status.to_string(),
            log: log.to_owned(),
            tail: tail(&String::from_utf8_lossy(ours.unwrap_or(&bytes))),
            hint: self.hint.clone(),
        }
        .into())
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())?;
        for arg in &self.args {
            let arg = arg.to_string_lossy();
            if arg.is_empty() || arg.contains([' ', '\'', '"', '$']) {
                write!(f, " '{}'", arg.replace('\'', r"'\''"))?;
            } else {
                write!(f, " {arg}")?;
            }
        }
        Ok(())
    }
}

/// A group of its own lets us end a program with all its children. Not so without root: sudo may
/// have to ask on the terminal, which only the foreground group can; Ctrl-C reaches all of those.
fn own_group() -> bool {
    crate::sudo::is_root()
}

fn wait(child: &mut Child, step: Option<&Step<'_>>) -> Result<ExitStatus> {
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a program")? {
            return Ok(status);
        }
        if interrupt::requested() {
            end(child);
            bail!("interrupted");
        }
        if let Some(step) = step {
            step.tick();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Ends a program: SIGTERM, and SIGKILL for one that does not listen.
fn end(child: &mut Child) {
    send(child, Signal::SIGTERM);
    let since = Instant::now();
    let mut killed = false;
    while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
        if since.elapsed() > PATIENCE * 2 {
            return;
        }
        if (interrupt::insisted() || since.elapsed() > PATIENCE) && !killed {
            send(child, Signal::SIGKILL);
            killed = true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for the last of our children: what an ended program has left behind. No thread of ours may
/// wait for a child of its own at the same time.
fn await_rest() {
    let since = Instant::now();
    let mut told = false;
    while !interrupt::insisted() && since.elapsed() < CLEANING {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                if !told {
                    eprintln!(
                        "waiting for the clean-up of what was started; Ctrl-C again leaves at once"
                    );
                    told = true;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
    eprintln!("left before the clean-up was over: what was started ends by itself");
}

/// Sends a signal. A failure is of no interest: the program has ended already, or is root's, and
/// then sudo passed Ctrl-C on.
fn send(child: &Child, signal: Signal) {
    if let Ok(id) = i32::try_from(child.id()) {
        let pid = Pid::from_raw(id);
        let _sent = if own_group() {
            killpg(pid, signal)
        } else {
            kill(pid, signal)
        };
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(TAIL);
    lines.get(from..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_shows_as_one_could_type_it() {
        let cmd = Cmd::new("apt-get").args(["install", "a b", "it's"]);
        assert_eq!(cmd.to_string(), r"apt-get install 'a b' 'it'\''s'");
        assert_eq!(
            cmd.under(&["sudo", "-n"]).to_string(),
            r"sudo -n apt-get install 'a b' 'it'\''s'"
        );
    }

    #[test]
    fn the_tail_is_the_last_lines_without_blanks() {
        let text: String = (0..50).map(|n| format!("line {n}\n\n")).collect();
        let tail = tail(&text);
        assert_eq!(tail.lines().count(), TAIL);
        assert!(tail.starts_with("line 30") && tail.ends_with("line 49"));
    }

    #[test]
    fn a_failed_program_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let progress = crate::step::Progress::new(1, dir.path().join("logs"));
        let step = progress.step("try", "trying");
        let error = Cmd::new("sh")
            .args(["-c", "echo out; echo err >&2; exit 3"])
            .hint("do this")
            .run(&step)
            .unwrap_err()
            .to_string();
        for part in [
            "exit status: 3",
            "| out",
            "| err",
            "what to do: do this",
            "try.log",
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }
}
