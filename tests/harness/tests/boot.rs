//! A cluster boots, runs jobs and accounts for them.

use std::time::{Duration, Instant};

use harness::{Cluster, Release, User};

const PATIENCE: Duration = Duration::from_secs(60);

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
        let start = Instant::now();
        let cluster = Cluster::builder(release)
            .nodes(2)
            .accounting(true)
            .start()
            .unwrap();
        eprintln!(
            "{release}: with accounting in {:.2} s",
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
        let args = ["-n", "-P", "-X", "-j", &job, "-o", "account,user,state"];
        cluster
            .wait_until("the job in sacct", PATIENCE, || {
                let shown = cluster
                    .run("sacct", args)
                    .map_err(|error| error.to_string())?;
                if shown.stdout.trim() == "physics|alice|COMPLETED" {
                    Ok(())
                } else {
                    Err(shown.to_string())
                }
            })
            .unwrap();
        cluster.stop().unwrap();
    }
}
