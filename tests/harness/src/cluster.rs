//! A running cluster.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use fake_nvml::Scenario;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;

use crate::cage::{Cage, Process};
use crate::conf::Conf;
use crate::daemon::Daemon;
use crate::files::put;
use crate::gpus::{self, Fixtures, Gpus};
use crate::logs::{Allowed, Logs};
use crate::root::Ids;
use crate::{Builder, Error, Exec, Output, Release, Result, Root, Version, wait};

/// How long a daemon may take to end.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A running cluster; it ends when it goes out of scope, and the test fails when it does not end
/// clean.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) id: String,
    pub(crate) root: Root,
    pub(crate) builder: Builder,
    pub(crate) controller: String,
    pub(crate) nodes: Vec<String>,
    pub(crate) conf: Conf,
    pub(crate) folder: PathBuf,
    pub(crate) cgroup_prefix: String,
    pub(crate) cage: Cage,
    pub(crate) logs: Logs,
    pub(crate) allowed: Mutex<Allowed>,
    pub(crate) daemons: Mutex<Vec<Daemon>>,
    /// The variables of its own clock, once that runs.
    pub(crate) clock: OnceLock<Vec<String>>,
    pub(crate) stopped: bool,
}

impl Cluster {
    /// Describes a cluster of a release.
    pub fn builder(release: Release) -> Builder {
        Builder::new(release)
    }

    /// The cluster's id, which is its name in Slurm too.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The full version of its Slurm.
    #[must_use]
    pub fn version(&self) -> Version {
        self.root.version
    }

    /// Its controller's host name.
    #[must_use]
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Its nodes' names.
    #[must_use]
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The name of a node; the first is number 1.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn node(&self, number: usize) -> &str {
        match number
            .checked_sub(1)
            .and_then(|index| self.nodes.get(index))
        {
            Some(name) => name,
            None => panic!("no node {number}: the cluster has {}", self.nodes.len()),
        }
    }

    pub(crate) fn number(&self, node: &str) -> Result<usize> {
        let index = self.nodes.iter().position(|name| name == node);
        index
            .map(|index| index + 1)
            .ok_or_else(|| Error::Unusable(format!("no node {node}")))
    }

    /// A path of a machine, usable on the host. Beware of absolute links on the way: the host
    /// follows them in its own root.
    ///
    /// # Errors
    /// When there is no such machine.
    pub fn path(&self, machine: &str, path: &str) -> Result<PathBuf> {
        self.cage.path(machine, path)
    }

    /// Writes a file of /etc/slurm, which all machines share; for [`Cluster::reconfigure`] or a
    /// restart to take up.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_etc(&self, name: &str, text: &str) -> Result<()> {
        put(&self.folder.join("etc").join(name), text, Ids::ROOT, 0o644)
    }

    /// The folder that all machines see as /opt/sgpu.
    #[must_use]
    pub fn opt(&self) -> PathBuf {
        self.folder.join("opt")
    }

    /// A program to be run, on the controller and as root unless said otherwise.
    pub fn command(&self, program: &str) -> Exec<'_> {
        let clock = self.clock.get().map_or(&[][..], Vec::as_slice);
        Exec::new(&self.cage, &self.controller, clock, program)
    }

    /// Runs a program on the controller as root.
    ///
    /// # Errors
    /// When it cannot be started; a program that fails is an [`Output`].
    pub fn run<S: AsRef<str>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Output> {
        self.command(program).args(args).run()
    }

    /// What `slurmd -G` prints on a node: the GRES of slurm.conf, gres.conf and the `gpu/*` plugin
    /// merged. Needs no daemon.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn slurmd_g(&self, node: &str) -> Result<Output> {
        self.slurmd(node)?.args(["-G"]).run()
    }

    /// `scontrol reconfigure`.
    ///
    /// # Errors
    /// When it fails.
    pub fn reconfigure(&self) -> Result<()> {
        self.run("scontrol", ["reconfigure"])?.ok().map(drop)
    }

    /// Changes a node's GPUs under the running daemons: the scenario, the devices and what the
    /// kernel shows of them.
    ///
    /// # Errors
    /// When the node has no fake NVML, or the scenario makes no sense.
    pub fn set_scenario(&self, node: &str, scenario: &Scenario) -> Result<()> {
        let at = |path: &str| self.cage.path(node, path);
        if !matches!(self.builder.gpus_of(self.number(node)?), Gpus::Scenario(_)) {
            return Err(Error::Unusable(format!("{node} has no fake NVML")));
        }
        let gpus = Gpus::Scenario(Box::new(scenario.clone()));
        Fixtures::of(&self.folder, node).write(scenario)?;
        gpus::sync_devices(&at("/dev")?, &gpus.nodes()?)?;
        gpus::write_scenario(at, &gpus.scenario(node).unwrap_or_default())
    }

    /// Lets lines of the logs pass that would fail the test at teardown.
    ///
    /// # Errors
    /// When the pattern is no regular expression.
    pub fn allow_log(&self, pattern: &str) -> Result<()> {
        self.allowed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(pattern)
    }

    /// A node's slurmd log, which its steps write to as well.
    #[must_use]
    pub fn slurmd_log(&self, node: &str) -> String {
        self.log(&format!("slurmd-{node}.log"))
    }

    /// The controller's log.
    #[must_use]
    pub fn slurmctld_log(&self) -> String {
        self.log("slurmctld.log")
    }

    /// A file of /var/log/slurm; empty when there is none. `<daemon>.out` is what it printed.
    #[must_use]
    pub fn log(&self, name: &str) -> String {
        self.logs.read(name)
    }

    /// Waits until the probe gives a value; its error says what was seen instead. Ends early when
    /// a daemon ends by itself.
    ///
    /// # Errors
    /// At the deadline: what was awaited, what was last seen, and the ends of all logs.
    pub fn wait_until<T>(
        &self,
        what: &str,
        deadline: Duration,
        probe: impl FnMut() -> Result<T, String>,
    ) -> Result<T> {
        let fatal = || self.daemons().iter_mut().find_map(Daemon::fault);
        wait::until(what, deadline, probe, fatal, || self.logs.tails(25))
    }

    /// Waits until every node is in a state, as `sinfo` calls it.
    ///
    /// # Errors
    /// At the deadline.
    pub fn wait_nodes(&self, state: &str, deadline: Duration) -> Result<()> {
        self.wait_states(
            &self.nodes.iter().map(String::as_str).collect::<Vec<_>>(),
            state,
            deadline,
        )
    }

    /// Waits until a node is in a state, as `sinfo` calls it.
    ///
    /// # Errors
    /// At the deadline.
    pub fn wait_node(&self, node: &str, state: &str, deadline: Duration) -> Result<()> {
        self.wait_states(&[node], state, deadline)
    }

    fn wait_states(&self, nodes: &[&str], state: &str, deadline: Duration) -> Result<()> {
        self.wait_until(&format!("{} {state}", nodes.join(", ")), deadline, || {
            let args = ["-h", "-N", "-n", &nodes.join(","), "-o", "%N %T"];
            let seen = self.run("sinfo", args).map_err(|error| error.to_string())?;
            let all = nodes.iter().all(|node| {
                let mut lines = seen.stdout.lines().filter_map(|line| line.split_once(' '));
                lines.any(|(name, is)| name == *node && is == state)
            });
            if all {
                Ok(())
            } else {
                Err(format!("{}{}", seen.stdout, seen.stderr))
            }
        })
    }

    /// Ends a node's slurmd as an admin would.
    ///
    /// # Errors
    /// When it runs not, or does not end.
    pub fn stop_slurmd(&self, node: &str) -> Result<()> {
        self.end_daemon(&format!("slurmd-{node}"))
    }

    /// Kills a node's slurmd.
    ///
    /// # Errors
    /// When it runs not.
    pub fn kill_slurmd(&self, node: &str) -> Result<()> {
        self.end_by(&format!("slurmd-{node}"), Signal::SIGKILL)
    }

    /// Ends a node's slurmd and starts it again; returns when it listens. A message of slurmctld's that
    /// is lost meanwhile is sent again after a minute only: after a job's end, wait until the node is
    /// idle first.
    ///
    /// # Errors
    /// When it does not end or does not come up.
    pub fn restart_slurmd(&self, node: &str) -> Result<()> {
        self.stop_slurmd(node)?;
        self.start_slurmd(node)?;
        let known = self.conf.nodes.iter().find(|known| known.name == node);
        let port = known.map(|known| known.port).unwrap_or_default();
        self.wait_port(&format!("slurmd of {node}"), port)
    }

    /// Ends slurmctld and starts it again; returns when it listens.
    ///
    /// # Errors
    /// When it does not end or does not come up.
    pub fn restart_slurmctld(&self) -> Result<()> {
        self.end_daemon("slurmctld")?;
        self.start_slurmctld()
    }

    /// Ends a daemon by SIGTERM: `slurmctld`, `slurmdbd`, `mariadb`, `munged`, `slurmd-<node>`.
    ///
    /// # Errors
    /// When it runs not, or does not end.
    pub fn end_daemon(&self, name: &str) -> Result<()> {
        self.end_by(name, Signal::SIGTERM)
    }

    fn end_by(&self, name: &str, signal: Signal) -> Result<()> {
        let not_there = || Error::Program(format!("{name} does not run"));
        {
            let mut daemons = self.daemons();
            let daemon = daemons
                .iter_mut()
                .find(|daemon| daemon.name == name)
                .ok_or_else(not_there)?;
            if !daemon.signal(&self.cage, signal) {
                return Err(not_there());
            }
        }
        self.wait_until(&format!("the end of {name}"), STOP_DEADLINE, || {
            let mut daemons = self.daemons();
            let Some(daemon) = daemons.iter_mut().find(|daemon| daemon.name == name) else {
                return Ok(());
            };
            if daemon.runs(&self.cage) {
                Err("it runs".to_owned())
            } else {
                Ok(())
            }
        })?;
        self.daemons().retain(|daemon| daemon.name != name);
        Ok(())
    }

    /// Sends a daemon a signal: `slurmctld`, `slurmd-<node>`.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        let mut daemons = self.daemons();
        let found = daemons.iter_mut().find(|daemon| daemon.name == name);
        if found.is_some_and(|daemon| daemon.signal(&self.cage, signal)) {
            return Ok(());
        }
        Err(Error::Program(format!("{name} does not run")))
    }

    pub(crate) fn daemons(&self) -> MutexGuard<'_, Vec<Daemon>> {
        self.daemons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects to a port of the cluster's own network, on the address of all its machines.
    ///
    /// # Errors
    /// As [`TcpStream::connect`].
    pub fn connect(&self, port: u16) -> std::io::Result<TcpStream> {
        self.in_network(move || TcpStream::connect((Ipv4Addr::LOCALHOST, port)))?
    }

    /// Runs a function on a thread that is in the cluster's network; sockets it opens stay there.
    ///
    /// # Errors
    /// When the network cannot be entered.
    pub fn in_network<T: Send>(&self, function: impl FnOnce() -> T + Send) -> std::io::Result<T> {
        let network = fs::File::open(self.cage.network())?;
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                setns(network, CloneFlags::CLONE_NEWNET)?;
                Ok(function())
            });
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Every process inside but the harness' own.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        self.cage.processes()
    }
}
