//! A SPANK plugin that was built for another release of Slurm: as `optional` it costs jobs nothing.

use harness::{Cluster, Plugins};
use suites::on_each_release;

#[test]
fn a_plugin_of_another_release_is_left_out() {
    if suites::releases().len() < 2 {
        eprintln!("skipped: one release alone is under test");
        return;
    }
    on_each_release(|release| {
        let other = suites::releases().into_iter().find(|it| *it != release);
        let other = harness::Root::open(other.unwrap()).unwrap();
        let plugins = harness::dist().join(other.version().to_string());
        let names = [
            "spank_sgpu_env.so",
            "spank_sgpu_bind.so",
            "spank_sgpu_ckpt.so",
        ];
        let lines = names.map(|name| format!("optional /opt/sgpu/other/{name}\n"));
        let cluster = Cluster::builder(release)
            .plugins(Plugins::Ours)
            .etc_slurm("plugstack.conf", &lines.concat())
            .allow_log("(?i)incompatible.*version|plugin_load_from_file.*sgpu|spank: .*sgpu.*")
            .start()
            .unwrap();
        let folder = cluster.opt().join("other");
        std::fs::create_dir_all(&folder).unwrap();
        for name in names {
            std::fs::copy(plugins.join(name), folder.join(name)).unwrap();
        }
        let said = cluster.run("srun", ["-n2", "sh", "-c", "echo ran"]);
        let said = said.unwrap().ok().unwrap();
        assert_eq!(said.stdout, "ran\nran\n", "{said}");
        // It is not there, so neither are its options.
        let said = cluster.run("srun", ["--dist-env", "true"]).unwrap();
        let said = said.failed().unwrap();
        assert!(said.stderr.contains("dist-env"), "{said}");
        cluster.stop().unwrap();
    });
}
