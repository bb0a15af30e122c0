//! The sections of the SPANK plugins.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::checked;
use crate::request::Request;

/// Which CPUs a task is bound to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum BindMode {
    /// Those nearest to its GPUs, as the kernel lists them.
    Closest,
    /// Those of its GPUs' NUMA nodes.
    Node,
    /// Those of its GPUs' sockets.
    Socket,
    /// As Slurm has bound it.
    Off,
}

impl FromStr for BindMode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "closest" => Ok(Self::Closest),
            "node" => Ok(Self::Node),
            "socket" => Ok(Self::Socket),
            "off" => Ok(Self::Off),
            _ => Err(format!("{word:?} is none of closest, node, socket, off")),
        }
    }
}

/// The word that is read.
impl fmt::Display for BindMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closest => "closest",
            Self::Node => "node",
            Self::Socket => "socket",
            Self::Off => "off",
        })
    }
}

/// Where a task's memory comes from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum MemoryPolicy {
    /// From the node of the CPU that touches it first: the kernel's default.
    Local,
    /// From its GPUs' NUMA nodes, and from others when they are full.
    Preferred,
    /// From its GPUs' NUMA nodes alone.
    Bind,
    /// The policy stays as it is.
    Off,
}

impl FromStr for MemoryPolicy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "local" => Ok(Self::Local),
            "preferred" => Ok(Self::Preferred),
            "bind" => Ok(Self::Bind),
            "off" => Ok(Self::Off),
            _ => Err(format!("{word:?} is none of local, preferred, bind, off")),
        }
    }
}

/// The word that is read.
impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Preferred => "preferred",
            Self::Bind => "bind",
            Self::Off => "off",
        })
    }
}

/// `[bind]`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Bind {
    /// What a job gets that does not ask (`--gpu-numa-bind`).
    pub mode: Option<BindMode>,
    /// Its memory (`--gpu-numa-mem`).
    pub memory: Option<MemoryPolicy>,
    /// Whether to stand aside when the user binds CPUs or memory.
    pub respect_cpu_bind: Option<bool>,
    /// Whether to tell the task which network devices are nearest to its GPUs.
    pub network: Option<bool>,
    /// Whether to tell each task's standard error what was done.
    pub verbose: Option<bool>,
}

impl Bind {
    /// What `self` leaves open comes from `below`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            mode: self.mode.or(below.mode),
            memory: self.memory.or(below.memory),
            respect_cpu_bind: self.respect_cpu_bind.or(below.respect_cpu_bind),
            network: self.network.or(below.network),
            verbose: self.verbose.or(below.verbose),
        }
    }
}

/// For which framework a task's environment is made.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// `torch` with more than one task, else nothing.
    Auto,
    /// PyTorch's `env://`.
    Torch,
    /// torchrun, one task per node.
    Torchrun,
    /// JAX.
    Jax,
    /// `torch` and what old readers of torchelastic look for.
    Elastic,
    /// Nothing.
    Off,
}

/// `[env]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Env {
    /// What a step gets that does not ask (`--dist-env`).
    pub profile: Option<Profile>,
    /// Where MASTER_PORT is taken from, both ends among them.
    #[serde(deserialize_with = "checked::port_range")]
    pub port_range: Option<(u16, u16)>,
    /// MASTER_ADDR, with `{node}` for the step's first node: `{node}-ib`, say.
    #[serde(deserialize_with = "checked::master_addr")]
    pub master_addr: Option<String>,
    /// Whether to set OMP_NUM_THREADS to the task's cores.
    pub omp_num_threads: Option<bool>,
    /// Variables of the site, by name.
    #[serde(deserialize_with = "checked::variables")]
    pub set: BTreeMap<String, String>,
}

impl Env {
    /// What `self` leaves open comes from `below`; variables one by one.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        let mut set = below.set;
        set.extend(self.set);
        Self {
            profile: self.profile.or(below.profile),
            port_range: self.port_range.or(below.port_range),
            master_addr: self.master_addr.or(below.master_addr),
            omp_num_threads: self.omp_num_threads.or(below.omp_num_threads),
            set,
        }
    }
}

/// Whom a signal goes to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The task's own program, past the shells that started it.
    Leader,
    /// All of the task's processes.
    Tree,
}

/// `[checkpoint]`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Checkpoint {
    /// What a job gets that does not ask, as `--checkpoint-signal` would say it: `USR1@120`. `Some(None)` is
    /// `off`.
    #[serde(deserialize_with = "checked::signal")]
    pub signal: Option<Option<Request>>,
    /// Where the program lies that waits for the signal beside the task.
    #[serde(deserialize_with = "checked::relay")]
    pub relay: Option<String>,
    /// The shortest time between two marks of `sgpu-ckpt mark`, in seconds.
    pub mark_every_minimum: Option<u64>,
    /// Whether `sgpu-ckpt mark` works in containers that have none of Slurm's commands: a process beside each
    /// step's first task.
    pub container_marks: Option<bool>,
}

impl Checkpoint {
    /// What `self` leaves open comes from `below`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            signal: self.signal.or(below.signal),
            relay: self.relay.or(below.relay),
            mark_every_minimum: self.mark_every_minimum.or(below.mark_every_minimum),
            container_marks: self.container_marks.or(below.container_marks),
        }
    }
}
