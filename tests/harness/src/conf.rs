//! Slurm's configuration files, written by pure functions.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use crate::{Topology, Version};

/// The control groups that a host offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cgroups {
    /// Version 1 with the devices and freezer hierarchies.
    V1,
    /// Version 2 alone.
    V2,
    /// None that Slurm could use.
    None,
}

/// Gathering of jobs' accounting data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAcct {
    /// `jobacct_gather/linux` or `jobacct_gather/cgroup`.
    pub plugin: String,
    /// Seconds between samples; 0 takes them at the end only.
    pub seconds: u32,
}

/// A node's part of slurm.conf.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its slurmd's port.
    pub port: u16,
    /// Its processors.
    pub topology: Topology,
    /// `gpu:8`.
    pub gres: Option<String>,
    /// More of its line, `Features=h100`.
    pub extra: String,
}

/// Everything that slurm.conf, slurmdbd.conf and cgroup.conf are made of.
#[derive(Clone, Debug)]
pub struct Conf {
    /// The Slurm that reads it.
    pub version: Version,
    /// The cluster's name.
    pub cluster: String,
    /// The controller's host name.
    pub controller: String,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Folders of plugins, in front of one another; empty for Slurm's default.
    pub plugin_dirs: Vec<String>,
    /// With slurmdbd.
    pub accounting: bool,
    /// What the host offers.
    pub cgroups: Cgroups,
    /// Jobs open the devices they were given, no others.
    pub constrain_devices: bool,
    /// Processor binding by cpuset; possible with the machine's true processors only.
    pub constrain_cores: bool,
    /// Gathering of jobs' accounting data.
    pub job_acct: Option<JobAcct>,
    /// Lines that replace or follow the others.
    pub extra: String,
}

/// The folder of the daemons' pid files.
pub(crate) const RUN: &str = "/run/slurm";
/// The folder of the daemons' logs.
pub(crate) const LOG: &str = "/var/log/slurm";
/// The ports; a cluster has a network of its own, so these are Slurm's usual ones.
pub(crate) const CTLD_PORT: u16 = 6817;
pub(crate) const DBD_PORT: u16 = 6819;

impl Conf {
    /// slurm.conf. A line of `extra` takes the place of ours with the same key; a `PartitionName`
    /// line that of our partition; other repeatable lines are added.
    #[must_use]
    pub fn slurm_conf(&self) -> String {
        let mut lines = Lines::default();
        lines.set("ClusterName", &self.cluster);
        lines.set("SlurmctldHost", &self.controller);
        // As on sites: the controller is not root. slurmd is, as it must be.
        lines.set("SlurmUser", "slurm");
        lines.set("AuthType", "auth/munge");
        lines.set("SlurmctldPort", &CTLD_PORT.to_string());
        lines.set("StateSaveLocation", "/var/lib/slurm/slurmctld");
        lines.set("SlurmdSpoolDir", "/var/lib/slurm/slurmd");
        // No mail program is in the root.
        lines.set("MailProg", "/bin/true");
        lines.set("SlurmctldPidFile", &format!("{RUN}/slurmctld.pid"));
        lines.set("SlurmdPidFile", &format!("{RUN}/slurmd.pid"));
        lines.set("SlurmctldLogFile", &format!("{LOG}/slurmctld.log"));
        lines.set("SlurmdLogFile", &format!("{LOG}/slurmd-%n.log"));
        lines.set("SlurmctldDebug", "verbose");
        lines.set("SlurmdDebug", "verbose");
        lines.set("MpiDefault", "none");
        lines.set("ReturnToService", "1");
        // The build machine is small and shared: a slow answer is no failure.
        lines.set("MessageTimeout", "30");
        lines.set("SlurmctldTimeout", "60");
        lines.set("SlurmdTimeout", "60");
        // Jobs start when they can, not at the next round.
        lines.set("SchedulerType", "sched/backfill");
        lines.set(
            "SchedulerParameters",
            "batch_sched_delay=0,sched_interval=2,bf_interval=1",
        );
        lines.set("SelectType", "select/cons_tres");
        lines.set("SelectTypeParameters", "CR_Core");
        if !self.plugin_dirs.is_empty() {
            lines.set("PluginDir", &self.plugin_dirs.join(":"));
        }
        match self.cgroups {
            Cgroups::V1 | Cgroups::V2 => {
                lines.set("ProctrackType", "proctrack/cgroup");
                lines.set("TaskPlugin", "task/cgroup");
            }
            Cgroups::None => lines.set("ProctrackType", "proctrack/linuxproc"),
        }
        if let Some(JobAcct { plugin, seconds }) = &self.job_acct {
            lines.set("JobAcctGatherType", plugin);
            lines.set("JobAcctGatherFrequency", &seconds.to_string());
        }
        if self.accounting {
            lines.set("AccountingStorageType", "accounting_storage/slurmdbd");
            lines.set("AccountingStorageHost", &self.controller);
            lines.set("AccountingStorageEnforce", "associations,limits,qos");
        }
        if self.nodes.iter().any(|node| node.gres.is_some()) {
            lines.set("GresTypes", "gpu");
            if self.accounting {
                lines.set("AccountingStorageTRES", "gres/gpu");
            }
        }
        for node in &self.nodes {
            lines.add(self.node_line(node));
        }
        lines.add("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP".into());
        lines.merge(&self.extra);
        lines.0.join("\n") + "\n"
    }

    fn node_line(&self, node: &Node) -> String {
        let Topology {
            sockets,
            cores,
            threads,
        } = node.topology;
        let mut line = format!(
            "NodeName={} NodeAddr={} Port={} Sockets={sockets} CoresPerSocket={cores} \
             ThreadsPerCore={threads} RealMemory=1000",
            node.name, node.address, node.port
        );
        if let Some(gres) = &node.gres {
            let _ = write!(line, " Gres={gres}");
        }
        if !node.extra.is_empty() {
            let _ = write!(line, " {}", node.extra);
        }
        line
    }

    /// cgroup.conf.
    #[must_use]
    pub fn cgroup_conf(&self) -> String {
        let yes_no = |yes| if yes { "yes" } else { "no" };
        let plugin = match self.cgroups {
            Cgroups::V1 => "CgroupPlugin=cgroup/v1\n",
            // No systemd in a machine to ask for a scope.
            Cgroups::V2 => "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n",
            // 22.05 knows no `disabled`; nothing asks for control groups there then.
            Cgroups::None if self.version.at_least(23, 2) => "CgroupPlugin=disabled\n",
            Cgroups::None => "",
        };
        let constrain = self.cgroups != Cgroups::None;
        format!(
            "{plugin}ConstrainDevices={}\nConstrainCores={}\nConstrainRAMSpace=no\n",
            yes_no(constrain && self.constrain_devices),
            yes_no(constrain && self.constrain_cores)
        )
    }

    /// slurmdbd.conf. MariaDB knows slurmdbd by the user it runs as: no password.
    #[must_use]
    pub fn slurmdbd_conf(&self) -> String {
        format!(
            "AuthType=auth/munge\nDbdHost={}\nDbdPort={DBD_PORT}\nSlurmUser=slurm\n\
             PidFile={RUN}/slurmdbd.pid\nLogFile={LOG}/slurmdbd.log\nDebugLevel=verbose\n\
             StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=slurm\n\
             StorageLoc=slurm_acct_db\n",
            self.controller
        )
    }
}

/// Lines of slurm.conf in their order.
#[derive(Debug, Default)]
struct Lines(Vec<String>);

/// Keys that may come more than once.
const REPEATABLE: [&str; 6] = [
    "nodename",
    "partitionname",
    "nodeset",
    "downnodes",
    "frontendname",
    "include",
];

fn key(line: &str) -> String {
    line.split(['=', ' '])
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

impl Lines {
    fn set(&mut self, name: &str, value: &str) {
        self.put(format!("{name}={value}"));
    }

    fn put(&mut self, line: String) {
        let name = key(&line);
        match self.0.iter_mut().find(|old| key(old) == name) {
            Some(old) => *old = line,
            None => self.0.push(line),
        }
    }

    fn add(&mut self, line: String) {
        self.0.push(line);
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|line| !key(line).eq_ignore_ascii_case(name));
    }

    fn merge(&mut self, extra: &str) {
        let extra: Vec<_> = extra
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        if extra.iter().any(|line| key(line) == "partitionname") {
            self.remove("PartitionName");
        }
        for line in extra {
            if line.starts_with('#') || REPEATABLE.contains(&key(line).as_str()) {
                self.add(line.to_owned());
            } else {
                self.put(line.to_owned());
            }
        }
    }
}

/// The control groups in a `/proc/mounts`.
pub(crate) fn cgroups_of(mounts: &str) -> Cgroups {
    let mut unified = false;
    let (mut devices, mut freezer) = (false, false);
    for line in mounts.lines() {
        let mut fields = line.split_whitespace().skip(1);
        let (Some(place), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let has = |name| options.split(',').any(|option| option == name);
        match kind {
            "cgroup" => {
                devices |= has("devices");
                freezer |= has("freezer");
            }
            "cgroup2" => unified |= place == "/sys/fs/cgroup",
            _ => {}
        }
    }
    match (devices && freezer, unified) {
        (true, _) => Cgroups::V1,
        (false, true) => Cgroups::V2,
        (false, false) => Cgroups::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf() -> Conf {
        Conf {
            version: Version {
                major: 24,
                minor: 11,
                micro: 5,
            },
            cluster: "sgx".into(),
            controller: "sgxctl".into(),
            nodes: vec![Node {
                name: "sgxn1".into(),
                address: Ipv4Addr::new(10, 77, 0, 2),
                port: 7001,
                topology: Topology {
                    sockets: 2,
                    cores: 64,
                    threads: 1,
                },
                gres: Some("gpu:8".into()),
                extra: "Features=h100".into(),
            }],
            plugin_dirs: vec!["/opt/sgpu/plugins".into(), "/usr/lib/x/slurm-wlm".into()],
            accounting: false,
            cgroups: Cgroups::V1,
            constrain_devices: true,
            constrain_cores: false,
            job_acct: None,
            extra: String::new(),
        }
    }

    fn has(text: &str, line: &str) -> bool {
        text.lines().any(|have| have == line)
    }

    #[test]
    fn a_node_has_its_processors_and_gres() {
        let text = conf().slurm_conf();
        let line = "NodeName=sgxn1 NodeAddr=10.77.0.2 Port=7001 Sockets=2 CoresPerSocket=64 \
                    ThreadsPerCore=1 RealMemory=1000 Gres=gpu:8 Features=h100";
        assert!(has(&text, line), "{text}");
        assert!(has(&text, "GresTypes=gpu"));
        assert!(has(
            &text,
            "PluginDir=/opt/sgpu/plugins:/usr/lib/x/slurm-wlm"
        ));
        assert!(!text.contains("AccountingStorage"));
    }

    #[test]
    fn accounting_brings_slurmdbd_and_tracks_gpus() {
        let text = Conf {
            accounting: true,
            ..conf()
        }
        .slurm_conf();
        assert!(has(
            &text,
            "AccountingStorageType=accounting_storage/slurmdbd"
        ));
        assert!(has(&text, "AccountingStorageTRES=gres/gpu"));
    }

    #[test]
    fn extra_lines_replace_ours_and_never_repeat_a_key() {
        let extra = "slurmddebug=debug3\nPartitionName=a Nodes=ALL\nPartitionName=b Nodes=ALL\nPriorityType=x\n";
        let text = Conf {
            extra: extra.into(),
            ..conf()
        }
        .slurm_conf();
        assert!(has(&text, "slurmddebug=debug3") && !text.contains("SlurmdDebug="));
        assert!(!text.contains("PartitionName=main"));
        assert_eq!(text.matches("PartitionName=").count(), 2);
        assert!(has(&text, "PriorityType=x"));
    }

    #[test]
    fn control_groups_are_named_as_each_release_knows_them() {
        let old = Version {
            major: 22,
            minor: 5,
            micro: 8,
        };
        assert!(
            conf()
                .cgroup_conf()
                .starts_with("CgroupPlugin=cgroup/v1\nConstrainDevices=yes\n")
        );
        assert!(
            Conf {
                cgroups: Cgroups::V2,
                ..conf()
            }
            .cgroup_conf()
            .contains("IgnoreSystemd=yes")
        );
        let none = Conf {
            cgroups: Cgroups::None,
            ..conf()
        };
        assert!(none.cgroup_conf().contains("CgroupPlugin=disabled"));
        assert!(none.cgroup_conf().contains("ConstrainDevices=no"));
        // 22.05's slurmd exits at `disabled`.
        assert!(
            !Conf {
                version: old,
                ..none.clone()
            }
            .cgroup_conf()
            .contains("disabled")
        );
        assert!(has(&none.slurm_conf(), "ProctrackType=proctrack/linuxproc"));
    }

    #[test]
    fn the_hosts_control_groups_are_seen() {
        let v1 = "cgroup /sys/fs/cgroup/devices cgroup rw,relatime,devices 0 0\n\
                  cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0\n\
                  cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        assert_eq!(cgroups_of(v1), Cgroups::V1);
        assert_eq!(
            cgroups_of("cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"),
            Cgroups::V2
        );
        assert_eq!(cgroups_of("tmpfs /tmp tmpfs rw 0 0\n"), Cgroups::None);
    }
}
