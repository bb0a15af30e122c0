//! What a preemptor wants.

use super::{Amount, Node};

/// How a job asks for GPUs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gpus {
    /// So many on each node; 0 for a job without GPUs.
    PerNode(u32),
    /// So many in all, at least one on each node.
    Total(u32),
}

/// What a preemptor wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// Slurm's number of it.
    pub job: u32,
    /// Its priority. It gives way to what preemptors of at least the same have claimed.
    pub priority: u64,
    /// The fewest nodes.
    pub nodes: u32,
    /// The most nodes. A job with GPUs per node takes the fewest.
    pub most_nodes: u32,
    /// GPUs.
    pub gpus: Gpus,
    /// Of which kind; `None`: any.
    pub kind: Option<u16>,
    /// Cores on each node.
    pub cores: u32,
    /// Memory on each node, in MiB.
    pub memory: u64,
    /// Cores for each GPU on top.
    pub cores_per_gpu: u32,
    /// Memory for each GPU on top, in MiB.
    pub memory_per_gpu: u64,
    /// Whether it wants whole nodes.
    pub exclusive: bool,
}

impl Request {
    /// A job on one node, any kind of GPU, one core.
    #[must_use]
    pub fn one_node(job: u32, gpus: u32) -> Self {
        Self {
            job,
            priority: 0,
            nodes: 1,
            most_nodes: 1,
            gpus: Gpus::PerNode(gpus),
            kind: None,
            cores: 1,
            memory: 0,
            cores_per_gpu: 0,
            memory_per_gpu: 0,
            exclusive: false,
        }
    }

    /// What it wants of a node for so many GPUs there.
    #[must_use]
    pub(crate) fn of_node(&self, node: &Node, gpus: u32) -> Amount {
        let wanted = Amount {
            gpus,
            cores: self
                .cores
                .saturating_add(self.cores_per_gpu.saturating_mul(gpus)),
            memory: self
                .memory
                .saturating_add(self.memory_per_gpu.saturating_mul(u64::from(gpus))),
        };
        if !self.exclusive {
            return wanted;
        }
        let whole = node.whole(self.kind);
        Amount {
            gpus: wanted.gpus.max(whole.gpus),
            cores: wanted.cores.max(whole.cores),
            memory: wanted.memory.max(whole.memory),
        }
    }

    /// How many GPUs, up to `most`, a node gives it from what is there.
    pub(crate) fn yield_of(&self, node: &Node, there: Amount, most: u32) -> u32 {
        if self.exclusive && !there.covers(node.whole(self.kind)) {
            return 0;
        }
        let cores = there.cores.checked_sub(self.cores);
        let memory = there.memory.checked_sub(self.memory);
        let (Some(cores), Some(memory)) = (cores, memory) else {
            return 0;
        };
        let by_cores = cores.checked_div(self.cores_per_gpu).unwrap_or(most);
        let by_memory = memory
            .checked_div(self.memory_per_gpu)
            .map_or(most, |gpus| u32::try_from(gpus).unwrap_or(most));
        most.min(there.gpus).min(by_cores).min(by_memory)
    }

    /// The fewest and most nodes.
    pub(crate) fn node_range(&self) -> (u32, u32) {
        let least = self.nodes.max(1);
        match self.gpus {
            Gpus::PerNode(_) => (least, least),
            Gpus::Total(gpus) => (least, self.most_nodes.min(gpus).max(least)),
        }
    }
}
