//! Namespaces of a cluster: made by util-linux' `unshare`, entered by its `nsenter`.
//!
//! Everything in a cage ends when the harness lets go of init's standard input, be it by [`Cage::close`],
//! by a panic or by SIGKILL.

pub(crate) mod plan;
mod process;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use plan::Plan;
pub use process::Process;
pub(crate) use process::below;

use crate::{Error, Result};

/// A machine's running namespaces.
#[derive(Clone, Debug)]
struct Holder {
    name: String,
    host_pid: i32,
}

impl Holder {
    /// The mount points of the machine.
    fn mounts(&self) -> Vec<String> {
        let info = fs::read_to_string(format!("/proc/{}/mountinfo", self.host_pid));
        let point = |line: &str| line.split_whitespace().nth(4).map(str::to_owned);
        info.unwrap_or_default().lines().filter_map(point).collect()
    }
}

/// Living namespaces.
#[derive(Debug)]
pub(crate) struct Cage {
    plan: Plan,
    supervisor: Child,
    lifeline: Option<ChildStdin>,
    init: i32,
    holders: Vec<Holder>,
    /// What runs in an empty cage: init and the holders.
    own: Vec<i32>,
    /// Each machine's mounts before anything ran in it.
    mounts: Vec<Vec<String>>,
}

impl Cage {
    /// Makes the namespaces and mounts.
    pub(crate) fn start(plan: Plan) -> Result<Self> {
        for path in [&plan.root, &plan.folder] {
            if path.to_string_lossy().contains([',', ':', '\\', '\n']) {
                return Err(Error::Unusable(format!(
                    "{}: overlayfs takes no comma, colon or backslash in a path",
                    path.display()
                )));
            }
        }
        let log_path = plan.folder.join("cage/log");
        for dir in [plan.tree(), plan.folder.join("cage")] {
            fs::create_dir_all(&dir).map_err(Error::file("make", &dir))?;
        }
        write(&plan.script("supervisor"), &plan.supervisor_script())?;
        write(&plan.script("init"), &plan.init_script())?;
        for machine in &plan.machines {
            write(&plan.script(&machine.name), &plan.machine_script(machine))?;
        }
        let log = fs::File::create(&log_path).map_err(Error::file("make", &log_path))?;
        let mut supervisor = Command::new("bash")
            .arg(plan.script("supervisor"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // Out of reach of a terminal's Ctrl-C: it cleans up after us.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Program(format!("start bash: {error}")))?;
        let lifeline = supervisor.stdin.take();
        let mut holders = Vec::new();
        let mut last = String::from("init ended");
        let lines = supervisor
            .stdout
            .take()
            .map(|out| BufReader::new(out).lines());
        for line in lines
            .into_iter()
            .flatten()
            .map_while(std::result::Result::ok)
        {
            match *line.split_whitespace().collect::<Vec<_>>() {
                ["machine", name, pid] => holders.push(Holder {
                    name: name.to_owned(),
                    host_pid: pid.parse().unwrap_or_default(),
                }),
                _ => {
                    last = line;
                    break;
                }
            }
            if holders.len() == plan.machines.len() {
                break;
            }
        }
        let mut cage = Self {
            plan,
            supervisor,
            lifeline,
            init: 0,
            holders,
            own: Vec::new(),
            mounts: Vec::new(),
        };
        if cage.holders.len() < cage.plan.machines.len() {
            let said = fs::read_to_string(&log_path).unwrap_or_default();
            let what = format!("could not be made: {last}\n{}", said.trim_end());
            return Err(Error::Cage {
                id: cage.plan.id.clone(),
                what,
            });
        }
        cage.init = cage.find_init().ok_or_else(|| Error::Cage {
            id: cage.plan.id.clone(),
            what: "init is not to be found".into(),
        })?;
        cage.own = process::list(cage.init)
            .iter()
            .map(|process| process.host_pid)
            .collect();
        cage.mounts = cage.holders.iter().map(Holder::mounts).collect();
        Ok(cage)
    }

    /// Init's pid on the host: the first process of a holder's namespace is found through its parents.
    fn find_init(&self) -> Option<i32> {
        let mut pid = self.holders.first()?.host_pid;
        for _ in 0..8 {
            let found = process::list(pid)
                .into_iter()
                .find(|process| process.host_pid == pid)?;
            if found.pid == 1 {
                return Some(pid);
            }
            pid = found.parent;
        }
        None
    }

    /// The plan it was made by.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// A machine's path, usable on the host.
    pub(crate) fn path(&self, machine: &str, path: &str) -> Result<PathBuf> {
        let holder = self.holder(machine)?;
        Ok(Path::new("/proc")
            .join(holder.host_pid.to_string())
            .join("root")
            .join(path.trim_start_matches('/')))
    }

    /// A path of the cage's own tmpfs, usable on the host.
    pub(crate) fn tree(&self, path: &Path) -> PathBuf {
        Path::new("/proc")
            .join(self.init.to_string())
            .join("root")
            .join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The network namespace, to be opened.
    pub(crate) fn network(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.init))
    }

    /// Whether somebody in the network listens on a TCP port.
    pub(crate) fn listens(&self, port: u16) -> bool {
        ["tcp", "tcp6"].iter().any(|table| {
            let path = format!("/proc/{}/net/{table}", self.init);
            process::listens(&fs::read_to_string(path).unwrap_or_default(), port)
        })
    }

    /// The beginning of a command that runs in a machine.
    pub(crate) fn enter(&self, machine: &str) -> Result<Command> {
        let holder = self.holder(machine)?;
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", holder.host_pid))
            .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--"]);
        Ok(command)
    }

    fn holder(&self, machine: &str) -> Result<&Holder> {
        self.holders
            .iter()
            .find(|holder| holder.name == machine)
            .ok_or_else(|| {
                let names: Vec<_> = self
                    .holders
                    .iter()
                    .map(|holder| holder.name.as_str())
                    .collect();
                Error::Unusable(format!(
                    "no machine {machine}; there are {}",
                    names.join(", ")
                ))
            })
    }

    /// Every process inside but the cage's own.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let mut all = process::list(self.init);
        all.retain(|process| !self.own.contains(&process.host_pid));
        all
    }

    /// Mounts that were made in machines since the start, as `machine:path`.
    pub(crate) fn new_mounts(&self) -> Vec<String> {
        let machines = self.holders.iter().zip(&self.mounts);
        machines
            .flat_map(|(holder, before)| {
                let now = holder.mounts();
                let new = now.into_iter().filter(|mount| !before.contains(mount));
                new.map(|mount| format!("{}:{mount}", holder.name))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// Init's pid on the host.
    pub(crate) fn init(&self) -> i32 {
        self.init
    }

    /// Ends everything inside and waits for the supervisor's cleaning.
    pub(crate) fn close(&mut self) {
        self.lifeline = None;
        let _ = self.supervisor.wait();
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        self.close();
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::file("write", path))
}
