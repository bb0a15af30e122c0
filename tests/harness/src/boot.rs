//! From a description to a running cluster.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cage::Cage;
use crate::cage::plan::{Bind, Machine, Plan};
use crate::clock::SHARED_MEMORY;
use crate::conf::{self, Conf, LOG, RUN};
use crate::daemon::{Daemon, Start};
use crate::files::{make, own, put};
use crate::gpus::{self, Fixtures};
use crate::logs::{Allowed, Logs};
use crate::root::Ids;
use crate::{Builder, Cluster, Error, Exec, Release, Result, Root, Topology, User, mariadb, paths};

/// The accounts that users are in, when there is accounting.
const ACCOUNTS: [(&str, User); 2] = [("physics", User::Alice), ("chemistry", User::Bob)];

impl Cluster {
    pub(crate) fn boot(builder: Builder) -> Result<Self> {
        let mut cluster = Self::dry(builder)?;
        match cluster.start_daemons() {
            Ok(()) => Ok(cluster),
            Err(error) => {
                // What failed is told; what it left behind follows from it.
                let _ = cluster.take_down();
                Err(error)
            }
        }
    }

    pub(crate) fn dry(builder: Builder) -> Result<Self> {
        let root = builder.root()?;
        let mut allowed = Allowed::stock()?;
        builder
            .allowed
            .iter()
            .try_for_each(|pattern| allowed.add(pattern))?;
        let (id, folder) = new_folder()?;
        // Until the cage's supervisor takes over, the folder is ours to remove.
        Self::enclose(builder, root, allowed, id, &folder).inspect_err(|_| {
            let _ = fs::remove_dir_all(&folder);
        })
    }

    /// Writes the configuration and makes the machines.
    fn enclose(
        builder: Builder,
        root: Root,
        allowed: Allowed,
        id: String,
        folder: &Path,
    ) -> Result<Self> {
        let (etc, opt, log) = (folder.join("etc"), folder.join("opt"), folder.join("log"));
        for dir in [&etc, &opt, &log] {
            fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
        }
        let conf = conf(&builder, &root, &id, &opt.join("plugins"))?;
        write_conf(&builder, &conf, &root, &etc)?;
        own(&log, root.ids("slurm")?, 0o755)?;
        let nodes: Vec<_> = conf.nodes.iter().map(|node| node.name.clone()).collect();
        let plan = plan(&builder, &conf, &root, &id, folder)?;
        let cluster = Self {
            cgroup_prefix: plan.cgroups.clone(),
            cage: Cage::start(plan)?,
            id,
            root,
            builder,
            controller: conf.controller.clone(),
            nodes,
            conf,
            folder: folder.to_path_buf(),
            logs: Logs { folder: log },
            allowed: Mutex::new(allowed),
            daemons: Mutex::new(Vec::new()),
            clock: OnceLock::new(),
            stopped: false,
        };
        cluster.furnish()?;
        Ok(cluster)
    }

    /// Users, host names, folders and GPUs of each machine.
    fn furnish(&self) -> Result<()> {
        let slurm = self.root.ids("slurm")?;
        let mut hosts = format!("127.0.0.1 localhost\n{} {}\n", address(0), self.controller);
        for node in &self.conf.nodes {
            let _ = writeln!(hosts, "{} {}", node.address, node.name);
        }
        for machine in std::iter::once(&self.controller).chain(&self.nodes) {
            let at = |path: &str| self.cage.path(machine, path);
            for (file, of, mode) in [
                ("/etc/passwd", passwd as fn(User) -> String, 0o644),
                ("/etc/group", group, 0o644),
                ("/etc/shadow", shadow, 0o600),
            ] {
                let path = at(file)?;
                let mut text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
                text.extend(User::ORDINARY.map(of));
                put(&path, &text, Ids::ROOT, mode)?;
            }
            put(&at("/etc/hosts")?, &hosts, Ids::ROOT, 0o644)?;
            put(
                &at("/etc/hostname")?,
                format!("{machine}\n"),
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
        for (number, node) in (1..).zip(&self.nodes) {
            let gpus = self.builder.gpus_of(number);
            let at = |path: &str| self.cage.path(node, path);
            gpus::sync_devices(&at("/dev")?, &gpus.nodes()?)?;
            if let Some(scenario) = gpus.scenario(node) {
                gpus::install_library(at, &self.root.libdir, self.builder.development_name)?;
                gpus::write_scenario(at, &scenario)?;
            }
        }
        Ok(())
    }

    fn start_daemons(&self) -> Result<()> {
        // MariaDB takes longest: everything else that can starts meanwhile. It and munged go by the machine's clock.
        if self.builder.accounting {
            self.start_mariadb()?;
        }
        self.start_munged()?;
        self.start_clock()?;
        if self.builder.accounting {
            self.wait_mariadb()?;
            self.start_slurmdbd()?;
            self.make_accounts()?;
        }
        self.start_slurmctld()?;
        for node in &self.nodes {
            self.start_slurmd(node)?;
        }
        self.wait_nodes("idle", self.builder.boot_deadline)
    }

    pub(crate) fn start_munged(&self) -> Result<()> {
        let munge = self.root.ids("munge")?;
        let at = |path: &str| self.cage.path(&self.controller, path);
        make(&at("/run/munge")?, munge, 0o755)?;
        for dir in ["/var/lib/munge", "/var/log/munge", "/etc/munge"] {
            make(&at(dir)?, munge, 0o700)?;
        }
        put(&at("/etc/munge/munge.key")?, random_key()?, munge, 0o400)?;
        let exec = self.command("/usr/sbin/munged").args(["--foreground"]);
        self.launch(
            "munged",
            &self.controller,
            exec.system_user("munge", munge),
            None,
            false,
        )?;
        let socket = at("/run/munge/munge.socket.2")?;
        self.wait_until("munged's socket", self.builder.boot_deadline, || {
            if socket.exists() {
                Ok(())
            } else {
                Err(format!("no {}", socket.display()))
            }
        })
    }

    fn start_mariadb(&self) -> Result<()> {
        let mysql = self.root.ids("mysql")?;
        let data = self.cage.path(&self.controller, mariadb::DATA)?;
        let cached = mariadb::cached(&self.root)?;
        if cached.is_dir() {
            mariadb::copy(&cached, &data)?;
        } else {
            make(&data, mysql, 0o700)?;
            self.command("mariadb-install-db")
                .args(mariadb::OPTIONS)
                .args(["--auth-root-authentication-method=socket", "--skip-test-db"])
                // Without them it looks the host's name up.
                .args(["--force", "--skip-name-resolve"])
                .run()?
                .ok()?;
        }
        make(
            &self.cage.path(&self.controller, mariadb::RUN)?,
            mysql,
            0o755,
        )?;
        let exec = self
            .command("mariadbd")
            .args(mariadb::OPTIONS)
            .args(mariadb::SERVER_OPTIONS);
        self.launch("mariadb", &self.controller, exec, None, false)
    }

    fn wait_mariadb(&self) -> Result<()> {
        self.wait_until("MariaDB", self.builder.boot_deadline, || {
            let asked = self
                .run("mariadb", ["--execute", "select 1"])
                .map_err(|e| e.to_string())?;
            if asked.status.success() {
                Ok(())
            } else {
                Err(asked.stderr)
            }
        })?;
        let known = self.run("mariadb", ["--execute", "use slurm_acct_db"])?;
        if !known.status.success() {
            self.run("mariadb", ["--execute", mariadb::GRANT])?.ok()?;
        }
        Ok(())
    }

    /// Starts slurmdbd and waits until it listens.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_slurmdbd(&self) -> Result<()> {
        let slurm = self.root.ids("slurm")?;
        let exec = self
            .command("/usr/sbin/slurmdbd")
            .args(["-D"])
            .system_user("slurm", slurm);
        let pid_file = Some(format!("{RUN}/slurmdbd.pid"));
        self.launch(
            "slurmdbd",
            &self.controller,
            exec.dir("/tmp"),
            pid_file,
            false,
        )?;
        self.wait_port("slurmdbd", conf::DBD_PORT)
    }

    fn make_accounts(&self) -> Result<()> {
        let mut text = format!(
            "Cluster - '{}'\nParent - 'root'\nUser - 'root':DefaultAccount='root'\n",
            self.id
        );
        for (account, _) in ACCOUNTS {
            let _ = writeln!(
                text,
                "Account - '{account}':Description='{account}':Organization='{account}'"
            );
        }
        for (account, user) in ACCOUNTS {
            let _ = writeln!(
                text,
                "Parent - '{account}'\nUser - '{}':DefaultAccount='{account}'",
                user.name()
            );
        }
        let file = self.cage.path(&self.controller, "/tmp/accounts.cfg")?;
        put(&file, text, Ids::ROOT, 0o644)?;
        self.run("sacctmgr", ["-i", "load", "/tmp/accounts.cfg"])?
            .ok()
            .map(drop)
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

    /// Waits until somebody listens. It does not knock: Slurm's daemons log a connection without a
    /// message as an error.
    pub(crate) fn wait_port(&self, who: &str, port: u16) -> Result<()> {
        let what = format!("{who} on port {port}");
        self.wait_until(&what, self.builder.boot_deadline, || {
            if self.cage.listens(port) {
                Ok(())
            } else {
                Err("nobody listens".into())
            }
        })
    }

    /// Starts a node's slurmd, without waiting for its registration.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn start_slurmd(&self, node: &str) -> Result<()> {
        let forks = self.builder.slurmd_forks;
        let mut exec = self.slurmd(node)?;
        if !forks {
            exec = exec.args(["-D"]);
        }
        let pid_file = Some(format!("{RUN}/slurmd.pid"));
        self.launch(&format!("slurmd-{node}"), node, exec, pid_file, forks)
    }

    /// slurmd with a node's environment, as a program to be run.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn slurmd(&self, node: &str) -> Result<Exec<'_>> {
        Ok(self.as_slurmd(node, "/usr/sbin/slurmd")?.args(["-N", node]))
    }

    /// A program on a node that sees what slurmd sees there, the machine's CPUs among it.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn as_slurmd(&self, node: &str, program: &str) -> Result<Exec<'_>> {
        let hwloc = self.builder.hwloc_of(self.number(node)?)?;
        let mut exec = self.command(program).on(node).dir("/tmp");
        exec = exec.env("HWLOC_SYNTHETIC", &hwloc);
        for (name, value) in &self.builder.slurmd_env {
            exec = exec.env(name, value);
        }
        Ok(exec)
    }

    pub(crate) fn launch(
        &self,
        name: &str,
        machine: &str,
        exec: Exec<'_>,
        pid_file: Option<String>,
        forks: bool,
    ) -> Result<()> {
        let (name, machine) = (name.to_owned(), machine.to_owned());
        let start = Start {
            name,
            machine,
            exec,
            pid_file,
            forks,
        };
        let daemon = Daemon::start(start, &self.logs.folder)?;
        self.daemons().push(daemon);
        Ok(())
    }
}

/// Makes the data folder that clusters with accounting start from, if there is none.
pub(crate) fn prepare_accounting(release: Release) -> Result<()> {
    let root = Root::open(release)?;
    let cached = mariadb::cached(&root)?;
    if cached.is_dir() {
        return Ok(());
    }
    let _lock = mariadb::lock(&cached)?;
    if cached.is_dir() {
        return Ok(());
    }
    let cluster = Cluster::dry(Cluster::builder(release).accounting(true))?;
    cluster.start_mariadb()?;
    cluster.start_munged()?;
    cluster.wait_mariadb()?;
    cluster.start_slurmdbd()?;
    // It listens when its tables are there; an answer proves it.
    cluster.run("sacctmgr", ["-n", "show", "cluster"])?.ok()?;
    cluster.end_daemon("slurmdbd")?;
    cluster.end_daemon("mariadb")?;
    let partial = mariadb::beside(&cached, "partial");
    let _ = fs::remove_dir_all(&partial);
    mariadb::copy(
        &cluster.cage.path(&cluster.controller, mariadb::DATA)?,
        &partial,
    )?;
    fs::rename(&partial, &cached).map_err(Error::file("rename", &partial))?;
    cluster.stop()
}

fn conf(builder: &Builder, root: &Root, id: &str, copies: &Path) -> Result<Conf> {
    let prefix = builder
        .node_prefix
        .clone()
        .unwrap_or_else(|| format!("{id}n"));
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut nodes = Vec::new();
    for number in 1..=builder.nodes {
        let short = u16::try_from(number)
            .map_err(|_| Error::Unusable(format!("{} nodes are too many", builder.nodes)))?;
        nodes.push(conf::Node {
            name: format!("{prefix}{number}"),
            address: address(short),
            port: 7000 + short,
            topology: Topology::parse(&builder.hwloc_of(number)?)?,
            gres: builder.node_gres.clone(),
            extra: builder.node_extra.clone(),
        });
    }
    Ok(Conf {
        version: root.version,
        cluster: id.to_owned(),
        controller: format!("{id}ctl"),
        nodes,
        plugin_dirs: builder.plugin_dirs(root, copies)?,
        accounting: builder.accounting,
        cgroups: conf::cgroups_of(&mounts),
        constrain_devices: builder.constrain_devices,
        constrain_cores: false,
        job_acct: builder.job_acct.clone(),
        extra: builder.slurm_conf_extra.clone(),
    })
}

fn write_conf(builder: &Builder, conf: &Conf, root: &Root, etc: &Path) -> Result<()> {
    put(&etc.join("slurm.conf"), conf.slurm_conf(), Ids::ROOT, 0o644)?;
    put(
        &etc.join("cgroup.conf"),
        conf.cgroup_conf(),
        Ids::ROOT,
        0o644,
    )?;
    put(&etc.join("gres.conf"), &builder.gres_conf, Ids::ROOT, 0o644)?;
    if builder.accounting {
        put(
            &etc.join("slurmdbd.conf"),
            conf.slurmdbd_conf(),
            root.ids("slurm")?,
            0o600,
        )?;
    }
    for (name, text) in &builder.files {
        put(&etc.join(name), text, Ids::ROOT, 0o644)?;
    }
    Ok(())
}

fn plan(builder: &Builder, conf: &Conf, root: &Root, id: &str, folder: &Path) -> Result<Plan> {
    let prefix = builder
        .node_prefix
        .clone()
        .unwrap_or_else(|| format!("{id}n"));
    let mut plan = Plan {
        id: id.to_owned(),
        folder: folder.to_path_buf(),
        root: root.path.clone(),
        machines: Vec::new(),
        cgroups: prefix,
    };
    let bind = |from: PathBuf, to: &str| Bind {
        from,
        to: to.to_owned(),
        read_only: false,
    };
    let mut binds = vec![
        bind(folder.join("etc"), "/etc/slurm"),
        bind(folder.join("opt"), "/opt/sgpu"),
        bind(folder.join("log"), LOG),
        bind(plan.shared("home"), "/home"),
        bind(plan.shared("munge"), "/run/munge"),
    ];
    if builder.clock.is_some() {
        binds.push(bind(plan.shared("shm"), SHARED_MEMORY));
    }
    plan.machines.push(Machine {
        name: conf.controller.clone(),
        binds: binds.clone(),
    });
    for (number, node) in (1..).zip(&conf.nodes) {
        let mut binds = binds.clone();
        if let Some(scenario) = builder.gpus_of(number).scenario(&node.name) {
            let fixtures = Fixtures::of(folder, &node.name);
            fixtures.write(&scenario)?;
            binds.push(bind(fixtures.pci, "/sys/bus/pci"));
            binds.push(bind(fixtures.driver, "/proc/driver"));
        }
        plan.machines.push(Machine {
            name: node.name.clone(),
            binds,
        });
    }
    Ok(plan)
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
        // Letters only, so that `<id>n[1-4]` is a host list.
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
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::file("make", &folder)(error)),
        }
    }
}

fn random_key() -> Result<Vec<u8>> {
    let source = Path::new("/dev/urandom");
    let mut key = vec![0; 128];
    fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut key))
        .map_err(Error::file("read", source))?;
    Ok(key)
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

/// No password. Without the line `su` lets nobody in, and by it slurmd reads a user's environment.
fn shadow(user: User) -> String {
    format!("{}:*:::::::\n", user.name())
}
