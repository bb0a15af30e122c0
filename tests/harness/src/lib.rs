//! Boots a real Slurm cluster in a folder: munged, slurmctld, slurmd on as many nodes as wanted, and
//! MariaDB with slurmdbd, each from a Debian root with that release's packages. See the README.
#![forbid(unsafe_code)]

mod boot;
mod builder;
mod cage;
mod cgroup;
mod clock;
mod cluster;
pub mod conf;
mod cores;
mod daemon;
mod error;
mod exec;
mod files;
mod gpus;
mod jobs;
mod logs;
mod mariadb;
mod paths;
mod release;
mod root;
mod shell;
mod stop;
mod teardown;
mod topology;
mod wait;

pub use builder::{Builder, Plugins};
pub use cage::Process;
pub use cluster::Cluster;
pub use error::{Error, Result};
pub use exec::{Exec, Output, User};
pub use fake_nvml::{self, Scenario};
pub use jobs::JobId;
pub use nix::sys::signal::Signal;
pub use paths::{dist, plugins, stock_plugin};
pub use release::{Release, Version};
pub use root::Root;
pub use teardown::Report;
pub use topology::Topology;
