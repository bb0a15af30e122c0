//! A cluster boots, runs jobs, accounts for them and ends without a trace, on each release.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::{Cluster, Release, User};

const PATIENCE: Duration = Duration::from_secs(60);

/// What the host's `/dev` has, with device numbers.
fn host_devices() -> Vec<(String, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found: Vec<_> = fs::read_dir("/dev")
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((
                entry.file_name().into_string().ok()?,
                entry.metadata().ok()?.rdev(),
            ))
        })
        .collect();
    found.sort();
    found
}

/// Whether the host has a process, a mount or a control group with this in its name.
fn traces(id: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(
        mounts
            .lines()
            .filter(|line| line.contains(id))
            .map(str::to_owned),
    );
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
fn four_nodes_boot_and_run_a_step_on_two() {
    for release in Release::under_test() {
        let start = Instant::now();
        let cluster = Cluster::builder(release).nodes(4).start().unwrap();
        eprintln!(
            "{release}: 4 nodes in {:.2} s",
            start.elapsed().as_secs_f64()
        );
        let out = cluster
            .command("srun")
            .args(["-N2", "hostname"])
            .user(User::Alice)
            .run();
        let out = out.unwrap().ok().unwrap();
        let mut names: Vec<_> = out.stdout.lines().collect();
        names.sort_unstable();
        assert_eq!(names, [cluster.node(1), cluster.node(2)]);
        let start = Instant::now();
        cluster.stop().unwrap();
        eprintln!("{release}: ended in {:.2} s", start.elapsed().as_secs_f64());
    }
}

#[test]
fn accounting_shows_the_job() {
    for release in Release::under_test() {
        // The first one on a machine makes the database's data folder.
        drop(Cluster::builder(release).accounting(true).start().unwrap());
        let start = Instant::now();
        let cluster = Cluster::builder(release)
            .nodes(4)
            .accounting(true)
            .start()
            .unwrap();
        eprintln!(
            "{release}: 4 nodes with accounting in {:.2} s",
            start.elapsed().as_secs_f64()
        );
        let id = cluster.sbatch("srun hostname").unwrap();
        cluster.wait_job_state(id, "COMPLETED", PATIENCE).unwrap();
        assert!(
            cluster
                .job_output(User::Alice, id)
                .unwrap()
                .starts_with(cluster.node(1))
        );
        let job = id.to_string();
        let args = ["-n", "-P", "-j", &job, "-o", "jobid,account,user,state"];
        let wanted = [
            format!("{job}|physics|alice|COMPLETED"),
            format!("{job}.0|physics||COMPLETED"),
        ];
        cluster
            .wait_until("the job in sacct", PATIENCE, || {
                let shown = cluster
                    .run("sacct", args)
                    .map_err(|error| error.to_string())?;
                let has = |line: &String| shown.stdout.lines().any(|shown| shown == line);
                if wanted.iter().all(has) {
                    Ok(())
                } else {
                    Err(shown.to_string())
                }
            })
            .unwrap();
        cluster.stop().unwrap();
    }
}

#[test]
fn two_clusters_live_side_by_side_and_leave_nothing() {
    let before = host_devices();
    for release in Release::under_test() {
        let boot = || {
            Cluster::builder(release)
                .nodes(2)
                .gpu_devices(8)
                .start()
                .unwrap()
        };
        let (one, two) = (boot(), boot());
        assert_ne!(one.id(), two.id());
        for cluster in [&one, &two] {
            let out = cluster
                .run("srun", ["-N2", "hostname"])
                .unwrap()
                .ok()
                .unwrap();
            assert!(
                out.stdout
                    .lines()
                    .all(|line| line.starts_with(cluster.id())),
                "{out}"
            );
        }
        let ids = [one.id().to_owned(), two.id().to_owned()];
        assert!(ids.iter().all(|id| !traces(id).is_empty()));
        let folder = one.opt().parent().unwrap().to_path_buf();
        one.stop().unwrap();
        // The other one did not notice.
        two.run("srun", ["-N2", "true"]).unwrap().ok().unwrap();
        two.stop().unwrap();
        for id in &ids {
            assert_eq!(traces(id), [""; 0]);
        }
        assert!(!Path::new(&folder).exists());
    }
    assert_eq!(host_devices(), before);
}

#[test]
fn daemons_restart() {
    for release in Release::under_test() {
        let cluster = Cluster::builder(release).start().unwrap();
        let node = cluster.node(1);
        let id = cluster
            .sbatch("touch started; until [ -e go ]; do sleep 0.1; done")
            .unwrap();
        let home = |name: &str| {
            cluster
                .path(cluster.controller(), &format!("/home/alice/{name}"))
                .unwrap()
        };
        cluster
            .wait_until("the job's start", PATIENCE, || {
                if home("started").exists() {
                    Ok(())
                } else {
                    Err("not started".into())
                }
            })
            .unwrap();
        cluster.restart_slurmd(node).unwrap();
        cluster.kill_slurmd(node).unwrap();
        cluster.start_slurmd(node).unwrap();
        fs::write(home("go"), "").unwrap();
        cluster.wait_job_state(id, "COMPLETED", PATIENCE).unwrap();
        cluster.wait_node(node, "idle", PATIENCE).unwrap();
        cluster.restart_slurmctld().unwrap();
        cluster.run("srun", ["true"]).unwrap().ok().unwrap();
        cluster.stop().unwrap();
    }
}

#[test]
fn slurmd_in_the_background_is_a_daemon_too() {
    for release in Release::under_test() {
        let cluster = Cluster::builder(release)
            .slurmd_forks(true)
            .start()
            .unwrap();
        cluster.run("srun", ["true"]).unwrap().ok().unwrap();
        // slurmd must not go while it still clears up after the job.
        cluster.wait_nodes("idle", PATIENCE).unwrap();
        cluster.restart_slurmd(cluster.node(1)).unwrap();
        cluster.run("srun", ["true"]).unwrap().ok().unwrap();
        cluster.stop().unwrap();
    }
}

#[test]
fn programs_run_as_whom_they_are_told_and_end_in_time() {
    for release in Release::under_test() {
        let cluster = Cluster::builder(release).dry().unwrap();
        let out = cluster
            .command("sh")
            .args(["-c", "id -un; pwd; echo $X"])
            .user(User::Bob)
            .env("X", "y z");
        assert_eq!(
            out.run().unwrap().ok().unwrap().stdout,
            "bob\n/home/bob\ny z\n"
        );
        let slow = cluster
            .command("sleep")
            .args(["60"])
            .timeout(Duration::from_millis(100))
            .run();
        assert_eq!(slow.unwrap().status.code(), Some(124));
        assert!(cluster.run("false", [""; 0]).unwrap().ok().is_err());
        // Nobody listens in the cluster's own network, whatever the host has.
        assert!(cluster.connect(6817).is_err());
        cluster.stop().unwrap();
    }
}
