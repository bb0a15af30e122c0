//! A running cluster.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, chown};

use crate::cage::plan::{Bind, Machine, Plan};
use crate::cage::{Cage, Process};
use crate::conf::{self, Conf, LOG, RUN};
use crate::daemon::{Daemon, Start};
use crate::logs::{Allowed, Logs};
use crate::root::Ids;
use crate::{Builder, Error, Exec, Output, Release, Report, Result, Root, Topology, User, Version};
use crate::{cgroup, cores, paths, wait};

/// A job's number.
pub type JobId = u32;

/// How long a teardown waits for daemons to end.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A running cluster; it ends when it goes out of scope.
#[derive(Debug)]
pub struct Cluster {
    id: String,
    root: Root,
    builder: Builder,
    controller: String,
    nodes: Vec<String>,
    conf: Conf,
    folder: PathBuf,
    cgroup_prefix: String,
    cage: Cage,
    logs: Logs,
    allowed: Mutex<Allowed>,
    daemons: Mutex<Vec<Daemon>>,
    stopped: bool,
}

impl Cluster {
    /// Describes a cluster of a release.
    pub fn builder(release: Release) -> Builder {
        Builder::new(release)
    }

    pub(crate) fn boot(builder: Builder) -> Result<Self> {
        let root = Root::open(builder.release)?;
        let mut allowed = Allowed::stock()?;
        builder
            .allowed
            .iter()
            .try_for_each(|pattern| allowed.add(pattern))?;
        let (id, folder) = new_folder()?;
        // Until the cage's supervisor takes over, the folder is ours to remove.
        let cluster = Self::enclose(builder, root, allowed, id, &folder).inspect_err(|_| {
            let _ = fs::remove_dir_all(&folder);
        })?;
        match cluster.start_daemons() {
            Ok(()) => Ok(cluster),
            Err(error) => {
                let mut cluster = cluster;
                let _ = cluster.take_down();
                Err(error)
            }
        }
    }

    /// Writes the configuration and makes the namespaces.
    fn enclose(
        builder: Builder,
        root: Root,
        allowed: Allowed,
        id: String,
        folder: &Path,
    ) -> Result<Self> {
        let controller = format!("{id}ctl");
        let prefix = builder
            .node_prefix
            .clone()
            .unwrap_or_else(|| format!("{id}n"));
        let nodes: Vec<_> = (1..=builder.nodes)
            .map(|number| format!("{prefix}{number}"))
            .collect();
        let (etc, opt, log) = (folder.join("etc"), folder.join("opt"), folder.join("log"));
        for dir in [&etc, &opt, &log] {
            fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
        }
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let conf = Conf {
            version: root.version,
            cluster: id.clone(),
            controller: controller.clone(),
            nodes: (1..)
                .zip(&nodes)
                .map(|(number, name)| conf::Node {
                    name: name.clone(),
                    address: address(number),
                    port: 7000 + number,
                    gres: builder.node_gres.clone(),
                    extra: builder.node_extra.clone(),
                })
                .collect(),
            topology: Topology::parse(&builder.hwloc)?,
            plugin_dirs: builder.plugin_dirs(&root, &opt.join("plugins"))?,
            accounting: builder.accounting,
            cgroups: conf::cgroups_of(&mounts),
            constrain_devices: builder.constrain_devices,
            constrain_cores: false,
            job_acct: builder.job_acct.clone(),
            extra: builder.slurm_conf_extra.clone(),
        };
        let slurm = root.ids("slurm")?;
        own(&log, slurm, 0o755)?;
        put(
            &etc.join("slurm.conf"),
            &conf.slurm_conf(),
            Ids::ROOT,
            0o644,
        )?;
        put(
            &etc.join("cgroup.conf"),
            &conf.cgroup_conf(),
            Ids::ROOT,
            0o644,
        )?;
        put(&etc.join("gres.conf"), &builder.gres_conf, Ids::ROOT, 0o644)?;
        if builder.accounting {
            put(
                &etc.join("slurmdbd.conf"),
                &conf.slurmdbd_conf(),
                slurm,
                0o600,
            )?;
        }
        for (name, text) in &builder.files {
            put(&etc.join(name), text, Ids::ROOT, 0o644)?;
        }
        let mut plan = Plan {
            id: id.clone(),
            folder: folder.to_path_buf(),
            root: root.path.clone(),
            machines: Vec::new(),
            cgroups: prefix.clone(),
        };
        let bind = |from: PathBuf, to: &str| Bind {
            from,
            to: to.to_owned(),
            read_only: false,
        };
        let binds = vec![
            bind(etc, "/etc/slurm"),
            bind(opt, "/opt/sgpu"),
            bind(log.clone(), LOG),
            bind(plan.shared("home"), "/home"),
            bind(plan.shared("munge"), "/run/munge"),
        ];
        for name in std::iter::once(&controller).chain(&nodes) {
            let devices = if *name == controller {
                Vec::new()
            } else {
                builder.devices.clone()
            };
            plan.machines.push(Machine {
                name: name.clone(),
                devices,
                binds: binds.clone(),
            });
        }
        let cluster = Self {
            cage: Cage::start(plan)?,
            id,
            root,
            builder,
            controller,
            nodes,
            conf,
            folder: folder.to_path_buf(),
            cgroup_prefix: prefix,
            logs: Logs { folder: log },
            allowed: Mutex::new(allowed),
            daemons: Mutex::new(Vec::new()),
            stopped: false,
        };
        cluster.furnish(slurm)?;
        Ok(cluster)
    }

    /// Users, host names and folders of each machine.
    fn furnish(&self, slurm: Ids) -> Result<()> {
        let mut hosts = format!("127.0.0.1 localhost\n{} {}\n", address(0), self.controller);
        for node in &self.conf.nodes {
            hosts.push_str(&format!("{} {}\n", node.address, node.name));
        }
        for machine in std::iter::once(&self.controller).chain(&self.nodes) {
            let at = |path: &str| self.cage.path(machine, path);
            for (file, of) in [
                ("/etc/passwd", passwd as fn(User) -> String),
                ("/etc/group", group),
            ] {
                let path = at(file)?;
                let mut text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
                text.extend(User::ORDINARY.map(of));
                put(&path, &text, Ids::ROOT, 0o644)?;
            }
            put(&at("/etc/hosts")?, &hosts, Ids::ROOT, 0o644)?;
            put(
                &at("/etc/hostname")?,
                &format!("{machine}\n"),
                Ids::ROOT,
                0o644,
            )?;
            make(&at(RUN)?, slurm, 0o755)?;
            make(&at("/var/lib/slurm/slurmd")?, Ids::ROOT, 0o755)?;
        }
        let at = |path: &str| self.cage.path(&self.controller, path);
        make(&at("/var/lib/slurm/slurmctld")?, slurm, 0o700)?;
        for user in User::ORDINARY {
            make(
                &at(user.home())?,
                Ids {
                    uid: user.uid(),
                    gid: user.uid(),
                },
                0o755,
            )?;
        }
        Ok(())
    }

    fn start_daemons(&self) -> Result<()> {
        self.start_munged()?;
        self.start_slurmctld()?;
        for node in &self.nodes {
            self.start_slurmd(node)?;
        }
        self.wait_nodes("idle", self.builder.boot_deadline)
    }

    fn start_munged(&self) -> Result<()> {
        let munge = self.root.ids("munge")?;
        let at = |path: &str| self.cage.path(&self.controller, path);
        make(&at("/run/munge")?, munge, 0o755)?;
        for dir in ["/var/lib/munge", "/var/log/munge", "/etc/munge"] {
            make(&at(dir)?, munge, 0o700)?;
        }
        let mut key = Vec::new();
        std::io::Read::read_to_end(
            &mut std::io::Read::take(
                fs::File::open("/dev/urandom")
                    .map_err(Error::file("open", Path::new("/dev/urandom")))?,
                128,
            ),
            &mut key,
        )
        .map_err(Error::file("read", Path::new("/dev/urandom")))?;
        put(&at("/etc/munge/munge.key")?, key, munge, 0o400)?;
        let exec = self
            .command("/usr/sbin/munged")
            .args(["--foreground"])
            .system_user("munge", munge);
        self.launch("munged", &self.controller, exec, None, false)?;
        let socket = at("/run/munge/munge.socket.2")?;
        self.wait_until("munged's socket", self.builder.boot_deadline, || {
            if socket.exists() {
                Ok(())
            } else {
                Err(format!("no {}", socket.display()))
            }
        })
    }

    /// Starts slurmctld and waits until it listens.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_slurmctld(&self) -> Result<()> {
        let exec = self.command("/usr/sbin/slurmctld").args(["-D"]).dir("/tmp");
        let pid_file = Some(format!("{RUN}/slurmctld.pid"));
        self.launch("slurmctld", &self.controller, exec, pid_file, false)?;
        self.wait_port("slurmctld", conf::CTLD_PORT)
    }

    fn wait_port(&self, who: &str, port: u16) -> Result<()> {
        self.wait_until(
            &format!("{who} on port {port}"),
            self.builder.boot_deadline,
            || {
                self.connect(port)
                    .map(drop)
                    .map_err(|error| error.to_string())
            },
        )
    }

    /// Starts a node's slurmd, without waiting for its registration.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn start_slurmd(&self, node: &str) -> Result<()> {
        let forks = self.builder.slurmd_forks;
        let mut exec = self
            .command("/usr/sbin/slurmd")
            .args(["-N", node])
            .env("HWLOC_SYNTHETIC", &self.builder.hwloc)
            .on(node)
            .dir("/tmp");
        for (name, value) in &self.builder.slurmd_env {
            exec = exec.env(name, value);
        }
        if !forks {
            exec = exec.args(["-D"]);
        }
        let pid_file = Some(format!("{RUN}/slurmd.pid"));
        self.launch(&format!("slurmd-{node}"), node, exec, pid_file, forks)
    }

    fn launch(
        &self,
        name: &str,
        machine: &str,
        exec: Exec<'_>,
        pid_file: Option<String>,
        forks: bool,
    ) -> Result<()> {
        let (name, machine) = (name.to_owned(), machine.to_owned());
        let daemon = Daemon::start(
            Start {
                name,
                machine,
                exec,
                pid_file,
                forks,
            },
            &self.logs.folder,
        )?;
        self.daemons().push(daemon);
        Ok(())
    }

    fn daemons(&self) -> MutexGuard<'_, Vec<Daemon>> {
        self.daemons.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.wait_until(&format!("all nodes {state}"), deadline, || {
            let seen = self
                .run("sinfo", ["-h", "-N", "-o", "%N %T"])
                .map_err(|e| e.to_string())?;
            let states: Vec<_> = seen
                .stdout
                .lines()
                .filter_map(|line| line.split_once(' '))
                .collect();
            let all = states.len() >= self.nodes.len();
            if all && states.iter().all(|(_, have)| *have == state) {
                return Ok(());
            }
            Err(format!("{}{}", seen.stdout, seen.stderr))
        })
    }

    /// Waits until a node is in a state, as `sinfo` calls it.
    ///
    /// # Errors
    /// At the deadline.
    pub fn wait_node(&self, node: &str, state: &str, deadline: Duration) -> Result<()> {
        self.wait_until(&format!("node {node} {state}"), deadline, || {
            let seen = self
                .run("sinfo", ["-h", "-N", "-n", node, "-o", "%T"])
                .map_err(|e| e.to_string())?;
            if seen.stdout.trim() == state {
                Ok(())
            } else {
                Err(format!("{}{}", seen.stdout, seen.stderr))
            }
        })
    }

    /// A program to be run, on the controller and as root unless said otherwise.
    pub fn command(&self, program: &str) -> Exec<'_> {
        Exec::new(&self.cage, &self.controller, program)
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

    /// Connects to a port of the cluster's own network.
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

    /// Its nodes' names.
    #[must_use]
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// A path of a machine, usable on the host.
    ///
    /// # Errors
    /// When there is no such machine.
    pub fn path(&self, machine: &str, path: &str) -> Result<PathBuf> {
        self.cage.path(machine, path)
    }

    /// Every process inside but the harness' own.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        self.cage.processes()
    }

    /// Ends the cluster.
    ///
    /// # Errors
    /// When it did not end clean.
    pub fn stop(mut self) -> Result<()> {
        let report = self.take_down();
        if report.is_clean() {
            Ok(())
        } else {
            Err(Error::Teardown(report))
        }
    }

    fn take_down(&mut self) -> Report {
        let mut faults = Vec::new();
        if self.stopped {
            return Report::default();
        }
        self.stopped = true;
        self.cage.close();
        faults.extend(
            self.logs
                .faults(&self.allowed.lock().unwrap_or_else(PoisonError::into_inner)),
        );
        let _ = (
            &mut faults,
            cgroup::find(&self.cgroup_prefix),
            cores::find(&self.folder),
            STOP_DEADLINE,
            Signal::SIGTERM,
        );
        Report {
            id: self.id.clone(),
            faults,
            logs: String::new(),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.take_down();
    }
}

/// A new cluster's id, and its folder, which nobody else has.
fn new_folder() -> Result<(String, PathBuf)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let base = paths::clusters();
    fs::create_dir_all(&base).map_err(Error::file("make", &base))?;
    let base = base.canonicalize().map_err(Error::file("find", &base))?;
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut seed =
            now.subsec_nanos() ^ std::process::id().rotate_left(12) ^ count.rotate_left(24);
        // A letter first and no digit last, so that `<id>n1` reads well and is a host list's item.
        let mut id = String::from("sg");
        for _ in 0..4 {
            id.push(char::from(
                b'a' + u8::try_from(seed % 26).unwrap_or_default(),
            ));
            seed /= 26;
        }
        let folder = base.join(&id);
        match fs::create_dir(&folder) {
            Ok(()) => return Ok((id, folder)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::file("make", &folder)(error)),
        }
    }
}

/// A machine's address in the cluster's own network; the controller is number 0.
fn address(number: u16) -> Ipv4Addr {
    let [high, low] = (number + 1).to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

fn passwd(user: User) -> String {
    let (name, id, home) = (user.name(), user.uid(), user.home());
    format!("{name}:x:{id}:{id}:{name}:{home}:/bin/bash\n")
}

fn group(user: User) -> String {
    format!("{}:x:{}:\n", user.name(), user.uid())
}

fn own(path: &Path, ids: Ids, mode: u32) -> Result<()> {
    chown(
        path,
        Some(Uid::from_raw(ids.uid)),
        Some(Gid::from_raw(ids.gid)),
    )
    .map_err(|errno| Error::file("give away", path)(errno.into()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(Error::file("chmod", path))
}

fn put(path: &Path, content: impl AsRef<[u8]>, ids: Ids, mode: u32) -> Result<()> {
    fs::write(path, content).map_err(Error::file("write", path))?;
    own(path, ids, mode)
}

fn make(path: &Path, ids: Ids, mode: u32) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::file("make", path))?;
    own(path, ids, mode)
}
