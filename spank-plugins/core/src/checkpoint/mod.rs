//! Checkpoint signals: what `--checkpoint-signal` asks for, and what is done about it.
//!
//! - [`arguments`]: the plugin's words in plugstack.conf;
//! - [`orders`]: what the plugin tells the relay, `sgpu-sigrelay`;
//! - [`relay`]: when the relay sends which signal;
//! - [`target`]: which of a task's processes gets it;
//! - [`mark`]: when such a mark is written;
//! - [`marks`]: how a mark gets out of a container;
//! - [`cgroups`]: the control groups of a step, for a process of ours in it.

pub mod arguments;
pub mod cgroups;
pub mod mark;
pub mod marks;
pub mod orders;
pub mod relay;
pub mod target;
