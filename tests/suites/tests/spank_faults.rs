//! SPANK plugins that go wrong: with a broken configuration, with a panic in every hook, built for another
//! release. All three are listed together, and `required` where that is the stricter: from 25.05 on Slurm fails a
//! step for any answer of a required plugin but 0, and drains the node when it cannot be started. None of it
//! may cost a user his job or an admin his node.

use std::path::Path;
use std::time::Duration;

use harness::{Builder, Cluster, JobId, Plugins, Release, User};
use suites::{on_each_spank_release, plugins};

/// Lists all SPANK plugins in a folder, each with the words of its place.
fn plugstack(kind: &str, folder: &str, words: [&str; 3]) -> String {
    let line = |(plugin, words): (plugins::Plugin, &str)| {
        format!("{kind} {folder}/{} {words}\n", plugin.file)
    };
    plugins::spank().into_iter().zip(words).map(line).collect()
}

fn builder(release: Release, plugstack: &str) -> Builder {
    Cluster::builder(release)
        .plugins(Plugins::Ours)
        .etc_slurm("plugstack.conf", plugstack)
}

/// Copies the SPANK plugins of one build to a folder of the cluster's `/opt/sgpu`.
fn install(cluster: &Cluster, build: &Path, folder: &str) {
    let place = cluster.opt().join(folder);
    std::fs::create_dir_all(&place).unwrap();
    for plugin in plugins::spank() {
        std::fs::copy(build.join(plugin.file), place.join(plugin.file)).unwrap();
    }
}

fn wait_end(cluster: &Cluster, id: JobId, state: &str) {
    cluster
        .wait_job_state(id, state, Duration::from_secs(60))
        .unwrap();
}

/// A step of two tasks, a batch job with a step, an allocation: each does what it does without us. Then the
/// node is there for the next one. Gives what the step said on standard error.
fn jobs_run(cluster: &Cluster, options: &[&str]) -> String {
    let run = |program: &str, words: &[&str]| {
        let command = cluster.command(program).args(options).args(words);
        command.user(User::Alice).run().unwrap().ok().unwrap()
    };
    let step = run("srun", &["-n2", "sh", "-c", "echo ran"]);
    assert_eq!(step.stdout, "ran\nran\n");
    let allocation = run("salloc", &["srun", "sh", "-c", "echo allocated"]);
    assert_eq!(allocation.stdout, "allocated\n");
    let script = "srun sh -c 'echo in a step' && exit 3";
    let id = cluster.sbatch_as(User::Alice, options, script).unwrap();
    wait_end(cluster, id, "FAILED");
    assert_eq!(cluster.job_field(id, "ExitCode").unwrap(), "3:0");
    let output = cluster.job_output(User::Alice, id).unwrap();
    assert!(output.lines().any(|line| line == "in a step"), "{output}");
    node_serves(cluster);
    step.stderr
}

/// Slurm has not drained the node.
fn node_serves(cluster: &Cluster) {
    cluster.wait_nodes("idle", Duration::from_secs(60)).unwrap();
    let shown = cluster.run("scontrol", ["show", "node"]).unwrap();
    let shown = shown.ok().unwrap().stdout;
    assert!(
        !shown.contains("Reason=") && !shown.contains("DRAIN"),
        "{shown}"
    );
}

/// What `sgpu-check` says of a cluster's files, which have mistakes.
fn checked(cluster: &Cluster) -> String {
    let said = cluster
        .run("/opt/sgpu/plugins/sgpu-check", [""; 0])
        .unwrap();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    said.stderr
}

/// The options of all three plugins.
const ALL: [&str; 3] = [
    "--gpu-numa-bind=node",
    "--dist-env=torch",
    "--checkpoint-signal=USR1@30",
];

#[test]
fn a_broken_configuration_costs_neither_a_step_nor_the_node() {
    on_each_spank_release(|release| {
        let wrong = plugstack(
            "required",
            "/opt/sgpu/plugins",
            [
                "mode=sideways colour",
                "profile=pytorch colour",
                "signal=KILL@0 colour",
            ],
        );
        let cluster = builder(release, &wrong)
            .allow_log("error: spank_sgpu_(bind|env|ckpt): ")
            .start()
            .unwrap();
        let node = cluster.node(1).to_owned();
        for file in [
            "[bind\nmode",
            "[bind]\nmode = 7\n",
            "env = \"torch\"\n",
            "\u{0}\u{1}",
        ] {
            cluster.write_etc("sgpu.toml", file).unwrap();
            let checked = checked(&cluster);
            assert!(
                checked.contains("/etc/slurm/sgpu.toml: line 1: ")
                    || checked.contains("/etc/slurm/sgpu.toml: line 2: "),
                "{file:?}: {checked}"
            );
            jobs_run(&cluster, &[]);
            jobs_run(&cluster, &ALL);
        }
        // slurmd loads them too when it starts.
        cluster.restart_slurmd(&node).unwrap();
        jobs_run(&cluster, &ALL);
        // What is wrong is told, by the plugin that it is wrong for.
        let log = cluster.slurmd_log(&node);
        for told in [
            "sgpu.toml",
            "spank_sgpu_bind: plugstack.conf: ",
            "spank_sgpu_env: plugstack.conf: ",
            "spank_sgpu_ckpt: plugstack.conf: ",
        ] {
            assert!(log.contains(told), "{told} is not in {log}");
        }
        // Two words a plugin, and the check before roll-out tells no other.
        let checked = checked(&cluster);
        let words: Vec<&str> = checked
            .lines()
            .filter_map(|line| line.split_once("plugstack.conf: line ")?.1.split_once(": "))
            .map(|(_, fault)| fault)
            .collect();
        assert_eq!(words.len(), 6, "{checked}");
        for fault in words {
            let told = format!("plugstack.conf: {fault}; left out");
            assert!(log.contains(&told), "{told} is not in {log}");
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn a_panic_in_every_hook_costs_neither_a_step_nor_the_node() {
    on_each_spank_release(|release| {
        let cluster = builder(release, "")
            .allow_log("sgpu.*: internal fault .*: this is the fault build")
            .start()
            .unwrap();
        let build = harness::dist().join(format!("{}-fault", cluster.version()));
        install(&cluster, &build, "fault");
        let faulty = plugstack("required", "/opt/sgpu/fault", ["", "", ""]);
        cluster.write_etc("plugstack.conf", &faulty).unwrap();
        let told = jobs_run(&cluster, &[]);
        assert!(told.contains("this is the fault build"), "{told}");
        let node = cluster.node(1).to_owned();
        assert!(cluster.slurmd_log(&node).contains("internal fault"));
        cluster.restart_slurmd(&node).unwrap();
        jobs_run(&cluster, &[]);
        cluster.stop().unwrap();
    });
}

/// After an upgrade of Slurm without ours, say. The docs have sites list the plugins as `optional`.
#[test]
fn plugins_of_another_release_leave_jobs_alone() {
    let releases = suites::spank_releases();
    if releases.len() < 2 {
        eprintln!("skipped: it takes the plugins of two releases, and one is under test");
        return;
    }
    on_each_spank_release(|release| {
        let cluster = builder(release, "")
            // Up to 25.05 Slurm says so of optional ones too.
            .allow_log("error: spank: /opt/sgpu/.*: Incompatible plugin version")
            .start()
            .unwrap();
        for other in releases.iter().filter(|other| **other != release) {
            let root = harness::Root::open(*other).unwrap();
            let folder = other.name();
            install(&cluster, &harness::plugins(root.version()), folder);
            let others = plugstack("optional", &format!("/opt/sgpu/{folder}"), ["", "", ""]);
            cluster.write_etc("plugstack.conf", &others).unwrap();
            jobs_run(&cluster, &[]);
            // They are not there: nobody knows their options.
            let asked = cluster.run("srun", ["--dist-env", "true"]).unwrap();
            let said = asked.failed().unwrap().stderr;
            assert!(said.contains("unrecognized option"), "{said}");
        }
        cluster.restart_slurmd(cluster.node(1)).unwrap();
        jobs_run(&cluster, &[]);
        cluster.stop().unwrap();
    });
}
