//! The end of a cluster, and what it tells of the tests that ran in it.

use std::fs;
use std::path::Path;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cage::below;
use crate::cluster::STOP_DEADLINE;
use crate::{Cluster, Error, Process, Report, Result, cgroup, cores};

/// How long processes that nobody awaits may take to follow the daemons.
const LINGER: Duration = Duration::from_secs(2);
/// How long jobs may take to end.
const JOBS_DEADLINE: Duration = Duration::from_secs(20);

impl Cluster {
    /// Ends the cluster.
    ///
    /// # Errors
    /// When it did not end clean: a daemon that crashed or does not end, a core file, `fatal:` and
    /// unexpected `error:` lines, processes, mounts or control groups left behind.
    pub fn stop(mut self) -> Result<()> {
        let report = self.take_down();
        if report.is_clean() {
            Ok(())
        } else {
            Err(Error::Teardown(report))
        }
    }

    pub(crate) fn take_down(&mut self) -> Report {
        let mut report = Report {
            id: self.id.clone(),
            ..Report::default()
        };
        if self.stopped {
            return report;
        }
        self.stopped = true;
        let faults = &mut report.faults;
        faults.extend(
            self.daemons()
                .iter_mut()
                .filter_map(crate::daemon::Daemon::fault),
        );
        if let Err(fault) = self.end_jobs() {
            faults.push(fault);
        }
        faults.extend(self.end_daemons());
        let left = self.await_empty(LINGER);
        faults.extend(
            left.iter()
                .filter(|process| !process.is_slurms_own())
                .map(|process| {
                    format!(
                        "process left behind: {} ({}) {}",
                        process.name, process.pid, process.command
                    )
                }),
        );
        faults.extend(
            self.cores()
                .into_iter()
                .map(|core| format!("core dump: {core}")),
        );
        faults.extend(
            self.cage
                .new_mounts()
                .iter()
                .map(|mount| format!("mount left behind: {mount}")),
        );
        let groups = cgroup::find(&self.cgroup_prefix);
        faults.extend(
            cgroup::of_jobs(&groups)
                .iter()
                .map(|path| format!("processes left in a control group: {}", path.display())),
        );
        {
            let allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
            faults.extend(self.logs.faults(&allowed));
        }
        if !faults.is_empty() || thread::panicking() {
            report.logs = self.logs.tails(40);
            if std::env::var_os("SGPU_KEEP_CLUSTERS").is_some() {
                let _ = fs::write(self.folder.join("keep"), "");
                report
                    .logs
                    .push_str(&format!("kept: {}\n", self.folder.display()));
            }
        }
        self.close(&mut report);
        report
    }

    /// Ends the namespaces, and looks at the host afterwards.
    fn close(&mut self, report: &mut Report) {
        let init = self.cage.init();
        self.cage.close();
        if Path::new(&format!("/proc/{init}")).exists() {
            report.faults.push(format!("init ({init}) lives"));
        }
        let groups = cgroup::find(&self.cgroup_prefix);
        report.faults.extend(
            groups
                .iter()
                .map(|path| format!("control group not to be removed: {}", path.display())),
        );
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let ours = self.folder.to_string_lossy().into_owned();
        report.faults.extend(
            mounts
                .lines()
                .filter(|line| line.contains(&ours))
                .map(|line| format!("mount on the host: {line}")),
        );
    }

    fn has(&self, daemon: &str) -> bool {
        self.daemons()
            .iter_mut()
            .any(|known| known.name == daemon && known.runs(&self.cage))
    }

    /// Cancels and kills what still runs: a test may end with jobs.
    fn end_jobs(&self) -> Result<(), String> {
        if !self.has("slurmctld") {
            return Ok(());
        }
        let running = || {
            let args = ["-h", "-a", "-t", "R,S,CF,CG,ST,SI", "-o", "%A %T"];
            self.run("squeue", args)
                .map(|out| out.stdout)
                .unwrap_or_default()
        };
        // One that waits would start on what the others leave, and be killed in the middle of it.
        let _ = self.run("scancel", ["--state=PENDING"]);
        let first = running();
        let jobs: Vec<_> = first
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let _ = self.run("scancel", &jobs);
        let start = Instant::now();
        loop {
            // Slurm would give them KillWait's 30 seconds.
            for task in below(&self.cage.processes(), |process| {
                process.name == "slurmstepd"
            }) {
                let _ = kill(Pid::from_raw(task.host_pid), Signal::SIGKILL);
            }
            let left = running();
            if left.is_empty() {
                return Ok(());
            }
            if start.elapsed() > JOBS_DEADLINE {
                return Err(format!(
                    "jobs do not end: {}",
                    left.trim().replace('\n', ", ")
                ));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends the daemons in the order that lets each say its last to those it needs.
    fn end_daemons(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let stages: [fn(&str) -> bool; 4] = [
            |name| name.starts_with("slurmd-") || name == "slurmctld",
            |name| name == "slurmdbd",
            |name| name == "mariadb",
            |_| true,
        ];
        let mut daemons = self.daemons();
        for stage in stages {
            for daemon in daemons.iter_mut().filter(|daemon| stage(&daemon.name)) {
                if daemon.is_lost(&self.cage) {
                    faults.push(format!("{} is gone", daemon.name));
                }
                daemon.signal(&self.cage, Signal::SIGTERM);
            }
            for daemon in daemons.iter_mut().filter(|daemon| stage(&daemon.name)) {
                let start = Instant::now();
                while daemon.runs(&self.cage) {
                    if start.elapsed() > STOP_DEADLINE {
                        faults.push(format!("{} does not end on SIGTERM", daemon.name));
                        daemon.signal(&self.cage, Signal::SIGKILL);
                        break;
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                faults.extend(daemon.fault());
            }
            daemons.retain(|daemon| !stage(&daemon.name));
        }
        faults
    }

    fn await_empty(&self, deadline: Duration) -> Vec<Process> {
        let start = Instant::now();
        loop {
            let left = self.cage.processes();
            if left.iter().all(Process::is_slurms_own) || start.elapsed() > deadline {
                return left;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Core files, wherever the kernel put them: what machines wrote, homes, logs.
    fn cores(&self) -> Vec<String> {
        let plan = self.cage.plan();
        let machines = plan
            .machines
            .iter()
            .map(|machine| self.cage.tree(&plan.upper(&machine.name)));
        let shared = [
            self.cage.tree(&plan.shared("home")),
            self.logs.folder.clone(),
            self.opt(),
        ];
        let found = machines
            .chain(shared)
            .flat_map(|folder| cores::find(&folder));
        found.map(|path| path.display().to_string()).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        let report = self.take_down();
        if thread::panicking() {
            // The test has failed already: its cause may be here.
            eprint!("{report}");
        } else if !report.is_clean() {
            panic!("{report}");
        }
    }
}
