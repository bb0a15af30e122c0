//! What a job has or wants of a node.

/// GPUs, cores and memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Amount {
    /// GPUs.
    pub gpus: u32,
    /// Cores.
    pub cores: u32,
    /// Memory, in MiB.
    pub memory: u64,
}

impl Amount {
    /// Nothing.
    pub const NONE: Self = Self {
        gpus: 0,
        cores: 0,
        memory: 0,
    };

    /// Both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            gpus: self.gpus.saturating_add(other.gpus),
            cores: self.cores.saturating_add(other.cores),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// What is left of it without `other`; nothing is the least.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            gpus: self.gpus.saturating_sub(other.gpus),
            cores: self.cores.saturating_sub(other.cores),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    /// Whether `other` fits in.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.gpus >= other.gpus && self.cores >= other.cores && self.memory >= other.memory
    }

    /// The smaller of each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            gpus: self.gpus.min(other.gpus),
            cores: self.cores.min(other.cores),
            memory: self.memory.min(other.memory),
        }
    }
}
