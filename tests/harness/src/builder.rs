//! Describing a cluster.

use std::fs;
use std::time::Duration;

use fake_nvml::Scenario;

use crate::clock::Clock;
use crate::conf::JobAcct;
use crate::gpus::Gpus;
use crate::{Cluster, Error, Release, Result, Root, paths};

/// Which `gpu/*` plugins the daemons find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plugins {
    /// Those of the root alone: no gpu/nvml.
    #[default]
    None,
    /// The distribution's own gpu/nvml beside them.
    Stock,
    /// Ours in front of them, from `target/dist/<version>`.
    Ours,
}

/// A small node.
const DEFAULT_HWLOC: &str = "pack:2 numa:1 core:4 pu:1";

/// A cluster to be started.
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    pub(crate) release: Release,
    /// What the root has beside Slurm: the end of its folder's name.
    pub(crate) with: &'static str,
    pub(crate) nodes: usize,
    pub(crate) node_prefix: Option<String>,
    pub(crate) hwloc: Option<String>,
    pub(crate) gpus: Gpus,
    pub(crate) node_gpus: Vec<(usize, Gpus)>,
    pub(crate) development_name: bool,
    pub(crate) plugins: Plugins,
    pub(crate) gres_conf: String,
    pub(crate) node_gres: Option<String>,
    pub(crate) node_extra: String,
    pub(crate) slurm_conf_extra: String,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) accounting: bool,
    pub(crate) constrain_devices: bool,
    pub(crate) job_acct: Option<JobAcct>,
    pub(crate) slurmd_forks: bool,
    pub(crate) slurmd_env: Vec<(String, String)>,
    pub(crate) allowed: Vec<String>,
    pub(crate) clock: Option<Clock>,
    pub(crate) boot_deadline: Duration,
}

impl Builder {
    pub(crate) fn new(release: Release) -> Self {
        Self {
            release,
            with: "",
            nodes: 1,
            node_prefix: None,
            hwloc: None,
            gpus: Gpus::None,
            node_gpus: Vec::new(),
            development_name: true,
            plugins: Plugins::None,
            gres_conf: String::new(),
            node_gres: None,
            node_extra: String::new(),
            slurm_conf_extra: String::new(),
            files: Vec::new(),
            accounting: false,
            constrain_devices: true,
            job_acct: None,
            slurmd_forks: false,
            slurmd_env: Vec::new(),
            allowed: Vec::new(),
            clock: None,
            boot_deadline: Duration::from_secs(60),
        }
    }

    /// Machines with Debian's PyTorch, which `cargo xtask test frameworks` makes a root of.
    pub fn torch(mut self) -> Self {
        self.with = "-torch";
        self
    }

    /// Machines with training frameworks from PyPI beside it, which `cargo xtask test frameworks_pypi` makes a
    /// root of; Debian 13 alone.
    pub fn frameworks(mut self) -> Self {
        self.with = "-frameworks";
        self
    }

    /// The root that the machines are made from.
    pub(crate) fn root(&self) -> Result<Root> {
        Root::open_kind(self.release, self.with)
    }

    /// How many nodes; 1 otherwise.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Nodes are called `<prefix>1`, `<prefix>2` ...; otherwise `<cluster id>n1` ... Control groups
    /// are named after nodes, so two clusters with the same prefix cannot live at the same time.
    pub fn node_prefix(mut self, prefix: &str) -> Self {
        self.node_prefix = Some(prefix.to_owned());
        self
    }

    /// Each node's processors, as hwloc's synthetic description; otherwise those of its scenario's
    /// machine, or `pack:2 numa:1 core:4 pu:1`.
    pub fn cpus_hwloc(mut self, description: &str) -> Self {
        self.hwloc = Some(description.to_owned());
        self
    }

    /// Plain `/dev/nvidia0` ... on each node, with no NVML.
    pub fn gpu_devices(mut self, count: u32) -> Self {
        self.gpus = Gpus::Devices(count);
        self
    }

    /// Fake NVML on each node, with one of its built-in boards.
    pub fn board(self, name: &str) -> Self {
        self.scenario(Scenario::board(name))
    }

    /// Fake NVML on each node. GPUs of different nodes get different UUIDs unless the scenario has a
    /// `uuid_seed`.
    pub fn scenario(mut self, scenario: Scenario) -> Self {
        self.gpus = Gpus::Scenario(Box::new(scenario));
        self
    }

    /// Another scenario on one node; the first node is number 1.
    pub fn node_scenario(mut self, number: usize, scenario: Scenario) -> Self {
        self.node_gpus
            .push((number, Gpus::Scenario(Box::new(scenario))));
        self
    }

    /// As on a host with the driver alone: `libnvidia-ml.so.1` without `libnvidia-ml.so`, the only
    /// name that 22.05 looks for.
    pub fn driver_only(mut self) -> Self {
        self.development_name = false;
        self
    }

    /// What a node has; the first is number 1.
    pub(crate) fn gpus_of(&self, number: usize) -> &Gpus {
        let own = self.node_gpus.iter().rev().find(|(of, _)| *of == number);
        own.map_or(&self.gpus, |(_, gpus)| gpus)
    }

    /// A node's processors.
    pub(crate) fn hwloc_of(&self, number: usize) -> Result<String> {
        match &self.hwloc {
            Some(own) => Ok(own.clone()),
            None => Ok(self
                .gpus_of(number)
                .hwloc()?
                .unwrap_or_else(|| DEFAULT_HWLOC.to_owned())),
        }
    }

    /// Which `gpu/*` plugins the daemons find.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.plugins = plugins;
        self
    }

    /// gres.conf.
    pub fn gres_conf(mut self, text: &str) -> Self {
        text.clone_into(&mut self.gres_conf);
        self
    }

    /// Each node's `Gres=` in slurm.conf, `gpu:8`.
    pub fn node_gres(mut self, gres: &str) -> Self {
        self.node_gres = Some(gres.to_owned());
        self
    }

    /// More of each node's line in slurm.conf.
    pub fn node_extra(mut self, text: &str) -> Self {
        text.clone_into(&mut self.node_extra);
        self
    }

    /// Lines of slurm.conf that replace ours of the same key, or are added.
    pub fn slurm_conf_extra(mut self, text: &str) -> Self {
        self.slurm_conf_extra.push_str(text);
        self.slurm_conf_extra.push('\n');
        self
    }

    /// Another file in /etc/slurm.
    pub fn etc_slurm(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// With MariaDB and slurmdbd; without otherwise.
    pub fn accounting(mut self, yes: bool) -> Self {
        self.accounting = yes;
        self
    }

    /// Jobs open the devices they were given, no others; so otherwise too.
    pub fn constrain_devices(mut self, yes: bool) -> Self {
        self.constrain_devices = yes;
        self
    }

    /// Gathers jobs' accounting data (`jobacct_gather/linux`, 1).
    pub fn job_acct(mut self, plugin: &str, seconds: u32) -> Self {
        self.job_acct = Some(JobAcct {
            plugin: plugin.to_owned(),
            seconds,
        });
        self
    }

    /// slurmd goes to the background, as it does when an admin starts it by hand; as a unit of
    /// systemd it stays in the foreground, and so it does here otherwise.
    pub fn slurmd_forks(mut self, yes: bool) -> Self {
        self.slurmd_forks = yes;
        self
    }

    /// A variable in slurmd's environment.
    pub fn slurmd_env(mut self, name: &str, value: &str) -> Self {
        self.slurmd_env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets lines of the logs pass that would fail the test at teardown.
    pub fn allow_log(mut self, pattern: &str) -> Self {
        self.allowed.push(pattern.to_owned());
        self
    }

    /// A clock of its own, which starts at `2026-01-01 00:00:00`, say, in UTC, and of which `speed` seconds pass in
    /// one of the machine's. Daemons, jobs and commands go by it; munged does not.
    pub fn clock(mut self, start: &str, speed: u32) -> Self {
        self.clock = Some(Clock {
            speed,
            start: start.to_owned(),
        });
        self
    }

    /// How long each step of the boot may take; 60 seconds otherwise.
    pub fn boot_deadline(mut self, deadline: Duration) -> Self {
        self.boot_deadline = deadline;
        self
    }

    /// Boots it: returns when every node is idle.
    ///
    /// # Errors
    /// When something is not set up, or a daemon does not come up.
    pub fn start(self) -> Result<Cluster> {
        if self.accounting {
            crate::boot::prepare_accounting(self.release)?;
        }
        Cluster::boot(self)
    }

    /// Makes the machines and starts no daemon of Slurm: for `slurmd -G`, `slurmd -C` and other programs
    /// that need none. munged runs, since 24.11's slurmd asks for it even then.
    ///
    /// # Errors
    /// When something is not set up.
    pub fn dry(self) -> Result<Cluster> {
        let cluster = Cluster::dry(self)?;
        cluster.start_munged()?;
        Ok(cluster)
    }

    /// The folders of plugins for PluginDir: ours are copied to `/opt/sgpu/plugins`, programs with them.
    pub(crate) fn plugin_dirs(&self, root: &Root, copies: &std::path::Path) -> Result<Vec<String>> {
        fs::create_dir_all(copies).map_err(Error::file("make", copies))?;
        let own = match self.plugins {
            Plugins::None => return Ok(Vec::new()),
            Plugins::Stock => vec![paths::stock_plugin(root.version)?],
            Plugins::Ours => {
                let dir = paths::plugins(root.version);
                let plugins = fs::read_dir(&dir)
                    .map_err(|_| Error::NotSetUp(format!("no plugins in {}", dir.display())))?;
                plugins
                    .filter_map(|entry| Some(entry.ok()?.path()))
                    .filter(|path| is_installed(path))
                    .collect()
            }
        };
        if own.is_empty() {
            return Err(Error::NotSetUp(format!(
                "no plugins for Slurm {}",
                root.version
            )));
        }
        for plugin in own {
            let name = plugin.file_name().unwrap_or_default();
            fs::copy(&plugin, copies.join(name))
                .map_err(|_| Error::NotSetUp(format!("no {}", plugin.display())))?;
        }
        Ok(vec![
            "/opt/sgpu/plugins".into(),
            format!("{}/slurm-wlm", root.libdir),
        ])
    }
}

/// Plugins, and programs, which have no extension; not xtask's notes.
fn is_installed(path: &std::path::Path) -> bool {
    let hidden = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_none_or(|extension| extension == "so")
}
