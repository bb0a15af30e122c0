//! A cluster boots and runs jobs.

use std::time::Instant;

use harness::{Cluster, Release};

#[test]
fn boots() {
    for release in Release::FULL {
        let start = Instant::now();
        let cluster = Cluster::builder(release).nodes(4).start().unwrap();
        eprintln!("{release}: booted in {:?}", start.elapsed());
        let out = cluster.run("srun", ["-N2", "hostname"]).unwrap();
        eprintln!("{out}");
        for p in cluster.processes() {
            eprintln!("{p:?}");
        }
        cluster.stop().unwrap();
    }
}
