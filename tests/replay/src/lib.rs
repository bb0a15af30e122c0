//! Traces of GPU jobs, replayed on a real slurmctld whose clock runs fast, and what came of them.
//!
//! - [`trace`]: jobs as a file has them;
//! - [`workload`]: what is replayed: jobs of a trace, with what the trace does not say made up from a seed;
//! - [`policy`]: how slurmctld is set up;
//! - [`site`]: the cluster;
//! - [`runs`]: what became of each job;
//! - [`metrics`]: figures over them;
//! - [`trust`]: whether they say anything;
//! - [`table`] and [`chart`]: how they are shown.
#![forbid(unsafe_code)]

pub mod chart;
pub mod metrics;
pub mod policy;
pub mod runs;
pub mod site;
pub mod table;
pub mod trace;
pub mod trust;
pub mod workload;
