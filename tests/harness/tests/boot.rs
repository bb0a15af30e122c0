//! A cluster boots, runs jobs and ends without a trace, on each release.

use std::fs;

use harness::{Cluster, Plugins, Release};

/// What the host's `/dev` has of NVIDIA.
fn nvidia_on_the_host() -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir("/dev")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("nvidia"))
        .collect();
    names.sort();
    names
}

fn on_both(test: impl Fn(Release) + Sync) {
    std::thread::scope(|scope| {
        for release in Release::FULL {
            let test = &test;
            scope.spawn(move || test(release));
        }
    });
}

#[test]
fn two_clusters_side_by_side_boot_run_and_end() {
    let before = nvidia_on_the_host();
    on_both(|release| {
        let cluster = Cluster::builder(release)
            .nodes(2)
            .gpu_devices(8)
            .start()
            .unwrap();
        let said = cluster
            .run("srun", ["-N2", "-l", "hostname"])
            .unwrap()
            .ok()
            .unwrap();
        assert_eq!(said.stdout.lines().count(), 2, "{said}");
        cluster.stop().unwrap();
    });
    assert_eq!(nvidia_on_the_host(), before);
}

#[test]
fn jobs_reach_slurmdbd() {
    on_both(|release| {
        let cluster = Cluster::builder(release).accounting(true).start().unwrap();
        let job = cluster.sbatch("#!/bin/sh\nsrun true\n").unwrap();
        cluster
            .wait_job_state(job, "COMPLETED", std::time::Duration::from_secs(30))
            .unwrap();
        cluster
            .wait_until(
                "the job in sacct",
                std::time::Duration::from_secs(30),
                || {
                    let said = cluster
                        .run(
                            "sacct",
                            ["-n", "-P", "-j", &job.to_string(), "-o", "JobID,State"],
                        )
                        .map_err(|error| error.to_string())?;
                    let done = format!("{job}.0|COMPLETED");
                    if said.stdout.contains(&done) {
                        Ok(())
                    } else {
                        Err(said.to_string())
                    }
                },
            )
            .unwrap();
        cluster.stop().unwrap();
    });
}

#[test]
fn devices_are_constrained() {
    on_both(|release| {
        let cluster = Cluster::builder(release)
            .gpu_devices(8)
            .gres_conf("Name=gpu File=/dev/nvidia[0-7]")
            .node_gres("gpu:8")
            .plugins(Plugins::None)
            .start()
            .unwrap();
        let look =
            "echo $CUDA_VISIBLE_DEVICES; for n in 0 1 2 7; do cat /dev/nvidia$n 2>&1; done; true";
        let said = cluster
            .run("srun", ["--gres=gpu:2", "sh", "-c", look])
            .unwrap()
            .ok()
            .unwrap()
            .stdout;
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[0], "0,1");
        for (line, allowed) in lines[1..].iter().zip([true, true, false, false]) {
            // An allowed device has no driver behind it.
            let words = if allowed {
                "No such device"
            } else {
                "Operation not permitted"
            };
            assert!(line.contains(words), "{line}");
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn a_teardown_reports_what_is_wrong() {
    let cluster = Cluster::builder(Release::Slurm24_11).start().unwrap();
    let node = cluster.nodes()[0].clone();
    let log = cluster
        .path(&node, &format!("/var/log/slurm/slurmd-{node}.log"))
        .unwrap();
    let mut text = fs::read_to_string(&log).unwrap();
    text.push_str(
        "[2026-01-01T00:00:00.000] error: planted\n[2026-01-01T00:00:00.000] fatal: planted too\n",
    );
    fs::write(&log, text).unwrap();
    cluster
        .command("sh")
        .args([
            "-c",
            "sleep 1000 >/dev/null 2>&1 & ulimit -c unlimited; cd /tmp; kill -SEGV $$",
        ])
        .core_dumps()
        .run()
        .unwrap();
    let report = match cluster.stop() {
        Err(harness::Error::Teardown(report)) => report,
        other => panic!("a dirty cluster ended with {other:?}"),
    };
    for fault in ["error: planted", "fatal: planted too", "sleep"] {
        assert!(report.mentions(fault), "{fault} is not in {report}");
    }
}
