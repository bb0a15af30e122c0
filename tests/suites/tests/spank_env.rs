//! `spank_sgpu_env` on real daemons: what tasks find in their environment.

use std::collections::BTreeMap;
use std::time::Duration;

use harness::{Builder, Cluster, Output, Plugins, Release, User};
use suites::on_each_spank_release;

/// Two nodes or more, with a line of plugstack.conf.
fn with(release: Release, nodes: usize, arguments: &str) -> Builder {
    Cluster::builder(release)
        .nodes(nodes)
        .plugins(Plugins::Ours)
        .etc_slurm(
            "plugstack.conf",
            &format!("required /opt/sgpu/plugins/spank_sgpu_env.so {arguments}\n"),
        )
}

/// Names of variables that a task prints.
const SHOWN: &str = "^(MASTER_|RANK=|WORLD_SIZE=|LOCAL_|NODE_RANK=|NNODES=|PET_|JAX_|GROUP_|ROLE_|SGPU_|NCCL_|GLOO_|OMP_|SITE)";

/// A task's command: it prints its rank and its variables in one line.
fn show() -> String {
    format!("echo TASK $SLURM_PROCID on=$SLURMD_NODENAME $(env | grep -E '{SHOWN}' | sort)")
}

type Vars = BTreeMap<String, String>;

/// The variables that each task printed, by its rank.
fn tasks(text: &str) -> BTreeMap<u32, Vars> {
    text.lines()
        .filter_map(|line| line.split_once("TASK ").map(|(_, rest)| rest))
        .map(|line| {
            let mut words = line.split(' ');
            let rank = words.next().unwrap().parse().expect("a rank");
            let vars = words
                .filter_map(|word| word.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            (rank, vars.collect())
        })
        .collect()
}

fn srun_with(cluster: &Cluster, env: &[(&str, &str)], words: &[&str]) -> Output {
    let mut command = cluster.command("srun").args(words);
    for (name, value) in env {
        command = command.env(name, value);
    }
    command
        .args(["/bin/sh", "-c", &show()])
        .user(User::Alice)
        .run()
        .unwrap()
}

/// What the tasks of an srun find.
fn srun(cluster: &Cluster, words: &[&str]) -> BTreeMap<u32, Vars> {
    let said = srun_with(cluster, &[], words).ok().unwrap();
    tasks(&said.stdout)
}

fn get<'a>(vars: &'a Vars, name: &str) -> &'a str {
    vars.get(name).map_or("", String::as_str)
}

/// Asserts that a task has no variable of ours.
fn has_nothing(vars: &Vars) {
    assert_eq!(vars.keys().collect::<Vec<_>>(), ["on"], "{vars:?}");
}

/// A job's output when it has ended.
fn batch(cluster: &Cluster, options: &[&str], script: &str) -> String {
    let id = cluster.sbatch_as(User::Alice, options, script).unwrap();
    cluster
        .wait_job_state(id, "COMPLETED", Duration::from_secs(60))
        .unwrap();
    cluster.job_output(User::Alice, id).unwrap()
}

#[test]
fn ranks_and_addresses() {
    on_each_spank_release(|release| {
        let cluster = with(release, 2, "").start().unwrap();
        let (n1, n2) = (cluster.node(1), cluster.node(2));

        let found = srun(&cluster, &["-N2", "--ntasks-per-node=2", "--dist-env"]);
        assert_eq!(found.len(), 4, "{found:?}");
        let mut ports = Vec::new();
        for (rank, vars) in &found {
            let node = u32::from(*rank > 1);
            let expected = [
                ("on", [n1, n2][node as usize].to_owned()),
                ("MASTER_ADDR", n1.to_owned()),
                ("RANK", rank.to_string()),
                ("WORLD_SIZE", "4".into()),
                ("LOCAL_RANK", (rank % 2).to_string()),
                ("LOCAL_WORLD_SIZE", "2".into()),
                ("NODE_RANK", node.to_string()),
                ("NNODES", "2".into()),
                ("SGPU_DIST_PROFILE", "torch".into()),
            ];
            for (name, value) in expected {
                assert_eq!(get(vars, name), value, "{name} of {rank}");
            }
            assert!(get(vars, "OMP_NUM_THREADS").parse::<u32>().unwrap() > 0);
            ports.push(get(vars, "MASTER_PORT").parse::<u16>().unwrap());
        }
        ports.dedup();
        assert_eq!(ports.len(), 1, "one port for all: {ports:?}");
        assert!((61_000..=65_535).contains(&ports[0]), "{ports:?}");

        // Who does not ask gets nothing; who asks alone gets it for one task too.
        srun(&cluster, &["-N2", "-n4"])
            .values()
            .for_each(has_nothing);
        srun(&cluster, &["-n1"]).values().for_each(has_nothing);
        let alone = srun(&cluster, &["-n1", "--dist-env=torch"]);
        assert_eq!(get(&alone[&0], "WORLD_SIZE"), "1");

        let launchers = srun(&cluster, &["-N2", "--dist-env=torchrun"]);
        let second = &launchers[&1];
        assert_eq!(get(second, "PET_NNODES"), "2");
        assert_eq!(get(second, "PET_NODE_RANK"), "1");
        assert_eq!(get(second, "PET_MASTER_ADDR"), n1);
        assert!(get(second, "PET_RDZV_ID").ends_with(".0.0"), "{second:?}");
        assert!(!second.contains_key("RANK") && !second.contains_key("LOCAL_RANK"));

        let jax = srun(&cluster, &["-N2", "--dist-env=jax", "--dist-port=7777"]);
        assert_eq!(
            get(&jax[&1], "JAX_COORDINATOR_ADDRESS"),
            format!("{n1}:7777")
        );
        assert!(!jax[&1].contains_key("RANK"));

        // Which node has task 0 of an arbitrary distribution, no task can know.
        let hosts = format!("{n2}\n{n1}\n");
        std::fs::write(
            cluster
                .path(cluster.controller(), "/home/alice/hosts")
                .unwrap(),
            hosts,
        )
        .unwrap();
        let env = [("SLURM_HOSTFILE", "/home/alice/hosts")];
        let words = ["-n2", "-m", "arbitrary", "--dist-env"];
        let said = srun_with(&cluster, &env, &words).ok().unwrap();
        let found = tasks(&said.stdout);
        assert_eq!(get(&found[&0], "on"), n2, "{said}");
        found.values().for_each(has_nothing);
        assert_eq!(said.stderr.matches("set MASTER_ADDR").count(), 1, "{said}");
        let told = [env[0], ("MASTER_ADDR", n2)];
        let said = srun_with(&cluster, &told, &words).ok().unwrap();
        let found = tasks(&said.stdout);
        assert_eq!(get(&found[&1], "RANK"), "1", "{said}");
        assert_eq!(get(&found[&1], "MASTER_ADDR"), n2, "{said}");

        let elastic = srun(&cluster, &["-N2", "--dist-env=elastic"]);
        assert_eq!(get(&elastic[&1], "GROUP_RANK"), "1");
        assert_eq!(get(&elastic[&1], "ROLE_WORLD_SIZE"), "2");
        cluster.stop().unwrap();
    });
}

#[test]
fn steps_of_a_job_have_addresses_and_ports_of_their_own() {
    on_each_spank_release(|release| {
        let cluster = with(release, 2, "profile=auto").start().unwrap();
        let n2 = cluster.node(2).to_owned();
        let script = format!(
            "{show}\n\
             srun sh -c {quoted}\n\
             echo STEP\n\
             srun -N1 -n3 -w {n2} sh -c {quoted}\n\
             echo STEP\n\
             srun -n1 sh -c {quoted}\n\
             echo STEP\n\
             srun --dist-env=off sh -c {quoted}\n",
            show = show().replace("TASK $SLURM_PROCID", "TASK 0"),
            quoted = format!("\"{}\"", show().replace('$', "\\$")),
        );
        let said = batch(&cluster, &["-N2", "--ntasks-per-node=3", "-n6"], &script);
        let steps: Vec<_> = said.split("STEP\n").map(tasks).collect();
        // The batch script comes first: of its lines and of the first step's the last one of a rank counts.
        let script_line = said.lines().next().unwrap();
        assert!(!script_line.contains("MASTER_"), "{said}");
        let (whole, part) = (&steps[0], &steps[1]);
        assert_eq!(whole.len(), 6, "{said}");
        assert_eq!(get(&whole[&5], "WORLD_SIZE"), "6");
        assert_eq!(get(&whole[&5], "MASTER_ADDR"), cluster.node(1));
        assert_eq!(part.len(), 3, "{said}");
        for (rank, vars) in part {
            for (name, value) in [
                ("MASTER_ADDR", n2.as_str()),
                ("WORLD_SIZE", "3"),
                ("RANK", &rank.to_string()),
                ("NODE_RANK", "0"),
                ("NNODES", "1"),
                ("LOCAL_WORLD_SIZE", "3"),
            ] {
                assert_eq!(get(vars, name), value, "{name} of {rank}");
            }
        }
        assert_ne!(
            get(&whole[&0], "MASTER_PORT"),
            get(&part[&0], "MASTER_PORT")
        );
        has_nothing(&steps[2][&0]);
        steps[3].values().for_each(has_nothing);

        // An interactive step, as salloc makes it for a shell on the node.
        let said = cluster
            .command("salloc")
            .args(["-N1", "-n2", "--dist-env", "srun", "--interactive"])
            .args(["sh", "-c", &show()])
            .user(User::Alice)
            .run()
            .unwrap()
            .ok()
            .unwrap();
        let found = tasks(&said.stdout);
        assert!(!found.is_empty(), "{said}");
        found.values().for_each(has_nothing);
        cluster.stop().unwrap();
    });
}

#[test]
fn options_of_sbatch_hold_for_the_steps_and_a_requeue_changes_the_port() {
    on_each_spank_release(|release| {
        let cluster = with(release, 2, "").start().unwrap();
        let quoted = format!("\"{}\"", show().replace('$', "\\$"));
        let script = format!("srun sh -c {quoted}\nsrun --dist-env=off sh -c {quoted}\n");
        let said = batch(&cluster, &["-N2", "--dist-env=elastic"], &script);
        assert_eq!(
            said.matches("SGPU_DIST_PROFILE=elastic").count(),
            2,
            "{said}"
        );
        assert_eq!(said.matches("TASK").count(), 4, "{said}");

        // Requeued by itself, once.
        let script = format!(
            "srun -n2 --dist-env sh -c {quoted}\n\
             if [ -z \"$SLURM_RESTART_COUNT\" ]; then scontrol requeue $SLURM_JOB_ID; sleep 60; fi\n"
        );
        let id = cluster
            .sbatch_as(
                User::Alice,
                &["-N2", "--requeue", "--open-mode=append"],
                &script,
            )
            .unwrap();
        cluster
            .wait_until("the job requeued", Duration::from_secs(60), || {
                let field = |name| cluster.job_field(id, name).map_err(|e| e.to_string());
                match (field("Restarts")?, field("JobState")?) {
                    (count, state) if count == "1" && state == "PENDING" => Ok(()),
                    seen => Err(format!("{seen:?}")),
                }
            })
            .unwrap();
        // slurmctld holds a requeued job back for two minutes unless it is told otherwise. slurmd refuses one
        // that starts in the second in which the former was ended.
        let soon = ["update", &format!("JobId={id}"), "StartTime=now+2"];
        cluster.run("scontrol", soon).unwrap().ok().unwrap();
        cluster
            .wait_job_state(id, "COMPLETED", Duration::from_secs(180))
            .unwrap();
        let said = cluster.job_output(User::Alice, id).unwrap();
        let mut ports: Vec<&str> = said
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("MASTER_PORT="))
            .collect();
        assert_eq!(ports.len(), 4, "{said}");
        ports.dedup();
        assert_eq!(ports.len(), 2, "{said}");
        cluster.stop().unwrap();
    });
}

#[test]
fn what_the_user_sets_is_the_users() {
    on_each_spank_release(|release| {
        let cluster = with(release, 2, "").start().unwrap();
        let words = &["-N2", "--dist-env"];

        let said = srun_with(&cluster, &[("MASTER_ADDR", "10.9.8.7")], words);
        let found = tasks(&said.stdout);
        assert_eq!(get(&found[&1], "MASTER_ADDR"), "10.9.8.7");
        assert_eq!(get(&found[&1], "RANK"), "1");
        assert_eq!(said.stderr.matches("MASTER_ADDR").count(), 1, "{said}");
        assert!(!said.stderr.contains("error"), "{said}");

        // Right for one of the tasks, or for none.
        for rank in ["1", "7"] {
            let said = srun_with(&cluster, &[("RANK", rank)], words).ok().unwrap();
            for vars in tasks(&said.stdout).values() {
                assert_eq!(get(vars, "RANK"), rank);
                assert_eq!(vars.len(), 2, "{vars:?}");
            }
            let notice = format!("RANK={rank} is set already");
            assert_eq!(said.stderr.matches(&notice).count(), 1, "{said}");
        }

        let forced = &["-N2", "--dist-env", "--dist-force"];
        let env = &[("RANK", "7"), ("MASTER_ADDR", "10.9.8.7")];
        let found = tasks(&srun_with(&cluster, env, forced).stdout);
        assert_eq!(get(&found[&0], "RANK"), "0");
        assert_eq!(get(&found[&0], "MASTER_ADDR"), cluster.node(1));

        for name in ["SUBMITIT_EXECUTOR", "TORCHELASTIC_RUN_ID"] {
            let said = srun_with(&cluster, &[(name, "x")], words).ok().unwrap();
            tasks(&said.stdout).values().for_each(has_nothing);
            assert_eq!(said.stderr.matches(name).count(), 1, "{said}");
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn without_the_users_environment_the_option_still_holds() {
    on_each_spank_release(|release| {
        let cluster = with(release, 2, "").start().unwrap();
        let found = srun(&cluster, &["-N2", "--export=NONE", "--dist-env"]);
        assert_eq!(get(&found[&1], "RANK"), "1", "{found:?}");
        assert_eq!(get(&found[&1], "MASTER_ADDR"), cluster.node(1));

        // So it does for the steps of a batch job, given to sbatch or in the script.
        let step = format!("srun /bin/sh -c \"{}\"\n", show().replace('$', "\\$"));
        let script = format!("#!/bin/sh\n#SBATCH -N2 --export=NONE --dist-env\n{step}");
        for (options, script) in [
            (&["-N2", "--export=NONE", "--dist-env"][..], &step),
            (&[], &script),
        ] {
            let said = batch(&cluster, options, script);
            let count = said.matches("SGPU_DIST_PROFILE=torch").count();
            assert_eq!(count, 2, "{options:?} {said}");
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn a_heterogeneous_step_has_one_master() {
    on_each_spank_release(|release| {
        let cluster = with(release, 2, "profile=auto").start().unwrap();
        let (n1, n2) = (cluster.node(1).to_owned(), cluster.node(2).to_owned());
        for (first, second) in [(&n1, &n2), (&n2, &n1)] {
            let show = show();
            let said = cluster
                .command("srun")
                .args(["-n2", "-w", first, "sh", "-c", &show])
                .args([":", "-n1", "-w", second, "sh", "-c", &show])
                .user(User::Alice)
                .run()
                .unwrap()
                .ok()
                .unwrap();
            let found = tasks(&said.stdout);
            assert_eq!(found.len(), 3, "{said}");
            assert_eq!(get(&found[&0], "on"), first);
            let port = get(&found[&0], "MASTER_PORT");
            for (rank, vars) in &found {
                assert_eq!(get(vars, "RANK"), rank.to_string());
                assert_eq!(get(vars, "WORLD_SIZE"), "3");
                assert_eq!(get(vars, "NNODES"), "2");
                assert_eq!(get(vars, "MASTER_ADDR"), first, "where rank 0 is: {said}");
                assert_eq!(get(vars, "MASTER_PORT"), port);
            }
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn the_sites_file_holds_on_its_nodes() {
    on_each_spank_release(|release| {
        let cluster = with(release, 2, "config=/etc/slurm/site.toml nonsense")
            .etc_slurm("site.toml", "[env]\nprofile = \"torch\"\n")
            .allow_log("error: spank_sgpu_env: plugstack.conf: \"nonsense\"")
            .start()
            .unwrap();
        let n2 = cluster.node(2).to_owned();
        let text = format!(
            "[env]\n\
             profile = \"torch\"\n\
             port_range = [50000, 50009]\n\
             master_addr = \"{{node}}-ib\"\n\
             omp_num_threads = false\n\
             set = {{ NCCL_SOCKET_IFNAME = \"=lo\", GLOO_SOCKET_IFNAME = \"nosuch0\", SITE = \"all\" }}\n\
             [[class]]\n\
             nodes = \"{n2}\"\n\
             env.set.SITE = \"second\"\n"
        );
        cluster.write_etc("site.toml", &text).unwrap();
        let said = srun_with(&cluster, &[], &["-N2", "--ntasks-per-node=2"])
            .ok()
            .unwrap();
        let found = tasks(&said.stdout);
        let vars = &found[&0];
        assert_eq!(get(vars, "MASTER_ADDR"), format!("{}-ib", cluster.node(1)));
        assert!(get(vars, "MASTER_PORT").starts_with("5000"), "{vars:?}");
        assert_eq!(get(vars, "NCCL_SOCKET_IFNAME"), "=lo");
        assert!(!vars.contains_key("GLOO_SOCKET_IFNAME") && !vars.contains_key("OMP_NUM_THREADS"));
        assert_eq!(get(vars, "SITE"), "all");
        assert_eq!(get(&found[&3], "SITE"), "second");
        // One notice on each node.
        assert_eq!(
            said.stderr.matches("GLOO_SOCKET_IFNAME=nosuch0").count(),
            2,
            "{said}"
        );

        // A file that is wrong fails no job.
        cluster
            .allow_log("error: spank_sgpu_env: /etc/slurm/site.toml")
            .unwrap();
        cluster
            .write_etc("site.toml", "[env]\nprofil = 1\n")
            .unwrap();
        srun(&cluster, &["-N2"]).values().for_each(has_nothing);
        assert!(
            cluster.slurmd_log(&n2).contains("site.toml: line 2: "),
            "{}",
            cluster.slurmd_log(&n2)
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn gpus_are_counted_and_never_chosen() {
    on_each_spank_release(|release| {
        let node = with(release, 1, "").board("8xh100-sxm5");
        let cluster = suites::gpus::of_the_board(node, release, 8)
            .start()
            .unwrap();
        let sees = |words: &[&str]| {
            let script = "echo TASK $SLURM_PROCID ids=$JAX_LOCAL_DEVICE_IDS gpus=$CUDA_VISIBLE_DEVICES \
                          each=$PET_NPROC_PER_NODE bind=$SLURMD_TRES_BIND";
            let said = cluster
                .command("srun")
                .args(words)
                .args(["sh", "-c", script])
                .run()
                .unwrap()
                .ok()
                .unwrap();
            (tasks(&said.stdout), said.stderr)
        };
        let eight = "0,1,2,3,4,5,6,7";
        let (found, _) = sees(&["-n4", "--gpus-per-node=8", "--dist-env=jax"]);
        assert_eq!(get(&found[&1], "gpus"), eight);
        assert_eq!(get(&found[&1], "ids"), "2,3", "{found:?}");
        let (found, _) = sees(&["-n8", "--gpus-per-node=8", "--dist-env=jax"]);
        assert_eq!(get(&found[&5], "ids"), "5", "{found:?}");
        let (found, _) = sees(&["-n8", "--gpus-per-node=4", "--dist-env=jax"]);
        assert_eq!(get(&found[&6], "ids"), "2", "{found:?}");
        let (found, _) = sees(&["-n1", "--gpus-per-node=4", "--dist-env=jax"]);
        assert_eq!(get(&found[&0], "ids"), "0,1,2,3", "{found:?}");
        let (found, _) = sees(&["-n1", "--gpus-per-node=8", "--dist-env=torchrun"]);
        assert_eq!(get(&found[&0], "each"), "8");
        let (found, told) = sees(&["-n4", "--gpus-per-task=1", "--dist-env=jax"]);
        for vars in found.values() {
            assert_eq!(get(vars, "ids"), "0", "{found:?}");
            assert_eq!(get(vars, "gpus").split(',').count(), 1, "{found:?}");
        }
        assert_eq!(
            told.matches("each task sees its own GPUs alone").count(),
            1,
            "{told}"
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn a_wrong_value_is_refused_and_help_shows_the_options() {
    on_each_spank_release(|release| {
        let cluster = with(release, 1, "").start().unwrap();
        let names = "auto, torch, torchrun, jax, elastic, off";
        for (words, told) in [
            (["srun", "--dist-env=pytorch", "/bin/true"], names),
            (["srun", "--dist-port=0", "/bin/true"], "from 1 to 65535"),
            (["sbatch", "--dist-env=pytorch", "--wrap=true"], names),
            (["salloc", "--dist-env=pytorch", "/bin/true"], names),
        ] {
            let said = cluster.run(words[0], &words[1..]).unwrap();
            assert_eq!(said.status.code(), Some(255), "{said}");
            assert!(said.stderr.contains(told), "{said}");
        }
        let queue = cluster.run("squeue", ["-h"]).unwrap().ok().unwrap();
        assert_eq!(queue.stdout, "", "no job was made");
        let help = cluster.run("srun", ["--help"]).unwrap().stdout;
        for option in ["--dist-env=profile", "--dist-port=port", "--dist-force"] {
            assert!(help.contains(option), "{option}: {help}");
        }
        cluster.stop().unwrap();
    });
}
