//! What a cluster's end reports, and what is left when nobody ends it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Cluster, Error, Release, Report, User};

const PATIENCE: Duration = Duration::from_secs(60);

fn folder(cluster: &Cluster) -> PathBuf {
    cluster.opt().parent().unwrap().to_path_buf()
}

fn report(cluster: Cluster) -> Report {
    match cluster.stop() {
        Err(Error::Teardown(report)) => report,
        other => panic!("a dirty cluster ended with {other:?}"),
    }
}

fn releases() -> Vec<Release> {
    Release::under_test()
}

#[test]
fn lines_in_a_log_are_reported() {
    for release in releases() {
        let cluster = Cluster::builder(release).start().unwrap();
        let node = cluster.node(1).to_owned();
        let log = cluster
            .path(&node, &format!("/var/log/slurm/slurmd-{node}.log"))
            .unwrap();
        let mut text = fs::read_to_string(&log).unwrap();
        let time = "[2026-01-01T00:00:00.000]";
        for line in [
            "error: planted",
            "[7.0] error: planted in a step",
            "fatal: planted too",
            "error: expected",
        ] {
            text.push_str(&format!("{time} {line}\n"));
        }
        fs::write(&log, text).unwrap();
        cluster.allow_log("error: expected$").unwrap();
        let report = report(cluster);
        assert_eq!(report.faults.len(), 3, "{report}");
        for fault in ["error: planted", "planted in a step", "fatal: planted too"] {
            assert!(report.mentions(fault), "{fault} is not in {report}");
        }
        assert!(
            report
                .to_string()
                .contains(&format!("--- slurmd-{node}.log")),
            "{report}"
        );
    }
}

#[test]
fn a_core_dump_is_reported() {
    for release in releases() {
        let cluster = Cluster::builder(release).dry().unwrap();
        let crash = cluster
            .command("sh")
            .args(["-c", "kill -SEGV $$"])
            .dir("/tmp")
            .core_dumps();
        assert!(!crash.run().unwrap().status.success());
        let report = report(cluster);
        assert_eq!(report.faults.len(), 1, "{report}");
        assert!(report.mentions("core dump: "), "{report}");
    }
}

#[test]
fn a_crashed_daemon_is_reported() {
    for release in releases() {
        let cluster = Cluster::builder(release).start().unwrap();
        let name = format!("slurmd-{}", cluster.node(1));
        cluster.signal(&name, harness::Signal::SIGABRT).unwrap();
        let never = cluster.wait_until("what never comes", PATIENCE, || -> Result<(), String> {
            Err("nothing".into())
        });
        // The wait ends with the daemon, not at its deadline.
        let error = never.unwrap_err().to_string();
        assert!(
            error.contains("what never comes") && error.contains(&format!("{name} ended")),
            "{error}"
        );
        let report = report(cluster);
        assert!(
            report.mentions(&format!("{name} ended by itself")),
            "{report}"
        );
    }
}

#[test]
fn a_daemon_that_is_gone_is_reported() {
    for release in releases() {
        let cluster = Cluster::builder(release)
            .slurmd_forks(true)
            .start()
            .unwrap();
        let slurmd = |process: &harness::Process| process.name == "slurmd";
        let pid = cluster
            .processes()
            .into_iter()
            .find(slurmd)
            .unwrap()
            .pid
            .to_string();
        cluster.run("kill", ["-KILL", &pid]).unwrap().ok().unwrap();
        cluster
            .wait_until("the end of slurmd", PATIENCE, || {
                if cluster.processes().iter().any(slurmd) {
                    Err("it runs".into())
                } else {
                    Ok(())
                }
            })
            .unwrap();
        let gone = format!("slurmd-{} is gone", cluster.node(1));
        assert!(report(cluster).mentions(&gone));
    }
}

#[test]
fn a_process_and_a_mount_left_behind_are_reported() {
    for release in releases() {
        let cluster = Cluster::builder(release).dry().unwrap();
        let leave = "setsid sleep 1000 >/dev/null 2>&1 & mkdir /mnt/x; mount -t tmpfs x /mnt/x";
        cluster.run("sh", ["-c", leave]).unwrap().ok().unwrap();
        let report = report(cluster);
        assert_eq!(report.faults.len(), 2, "{report}");
        assert!(report.mentions("process left behind: sleep"), "{report}");
        assert!(
            report.mentions("mount left behind: ") && report.mentions(":/mnt/x"),
            "{report}"
        );
    }
}

#[test]
fn jobs_end_with_their_cluster() {
    for release in releases() {
        let cluster = Cluster::builder(release).start().unwrap();
        let deaf = "trap '' TERM; touch started; while :; do sleep 1; done";
        cluster.sbatch(deaf).unwrap();
        cluster
            .sbatch_as(User::Bob, &["--exclusive"], "sleep 1000")
            .unwrap();
        let started = cluster
            .path(cluster.controller(), "/home/alice/started")
            .unwrap();
        cluster
            .wait_until("the job's start", PATIENCE, || {
                if started.exists() {
                    Ok(())
                } else {
                    Err("not started".into())
                }
            })
            .unwrap();
        cluster.stop().unwrap();
    }
}

#[test]
fn a_panic_takes_the_cluster_down() {
    for release in releases() {
        let mut path = PathBuf::new();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let cluster = Cluster::builder(release).start().unwrap();
            path = folder(&cluster);
            panic!("on purpose");
        }));
        assert!(caught.is_err());
        assert!(path.is_absolute() && !path.exists());
    }
}

/// Not a test: what [`a_killed_test_leaves_nothing`] kills.
#[test]
#[ignore = "started by another test"]
fn boots_and_waits() {
    let cluster = Cluster::builder(Release::under_test()[0]).start().unwrap();
    cluster.sbatch("sleep 1000").unwrap();
    println!("\nbooted {}", folder(&cluster).display());
    loop {
        std::thread::park();
    }
}

fn mentions_of(id: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(id) {
            found.push(command);
        }
    }
    for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        for group in fs::read_dir(hierarchy.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            if group.file_name().to_string_lossy().contains(id) {
                found.push(group.path().display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_killed_test_leaves_nothing() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "boots_and_waits", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let booted = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.strip_prefix("booted ")?.to_owned()));
    let folder = PathBuf::from(booted.unwrap());
    assert!(folder.exists());
    let id = folder.file_name().unwrap().to_string_lossy().into_owned();
    assert!(!mentions_of(&id).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let start = Instant::now();
    while Path::new(&folder).exists() || !mentions_of(&id).is_empty() {
        assert!(start.elapsed() < PATIENCE, "{:?}", mentions_of(&id));
        std::thread::sleep(Duration::from_millis(20));
    }
}
