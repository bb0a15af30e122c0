//! Steps that Slurm makes for itself: the batch script, salloc's interactive step, the external step. Whatever the
//! site and the user ask for, `spank_sgpu_env` sets nothing in them and `spank_sgpu_bind` binds nothing.

use std::time::Duration;

use harness::{Builder, Cluster, Release, User};
use suites::{gpus, on_each_release, on_each_spank_release, scenarios};

const PLUGSTACK: &str = "\
required /opt/sgpu/plugins/spank_sgpu_env.so profile=torch
required /opt/sgpu/plugins/spank_sgpu_bind.so mode=closest network=yes
";

/// What a program has of ours, and where it may run.
const LOOK: &str = r#"
echo "$1 $(env | grep -cE '^(MASTER_|RANK=|WORLD_SIZE=|LOCAL_|NODE_RANK=|SGPU_|OMP_)') ours, cpus $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
"#;

/// All GPUs are beside CPU 0, a socket to Slurm, so that who is bound has less than the machine.
fn node(release: Release) -> Builder {
    let board = Cluster::builder(release)
        .scenario(scenarios::all_near("4xt4", 4, "0"))
        .cpus_hwloc("pack:2 numa:1 core:1 pu:1");
    gpus::of_the_board(board, release, 4).etc_slurm("plugstack.conf", PLUGSTACK)
}

/// Puts the script into alice's home, and gives what a step's task finds of ours, and where anybody may run whom
/// we do not bind.
fn prepare(cluster: &Cluster) -> String {
    let look = cluster.path(cluster.controller(), "/home/alice/look");
    std::fs::write(look.unwrap(), LOOK).unwrap();
    let words = [
        "--gpu-numa-bind=off",
        "--dist-env=off",
        "sh",
        "look",
        "plain",
    ];
    let srun = cluster.command("srun").args(words).user(User::Alice);
    let plain = srun.run().unwrap().ok().unwrap().stdout;
    plain.trim_end().to_owned()
}

#[test]
fn a_batch_script_is_no_rank_and_its_steps_are() {
    on_each_spank_release(|release| {
        let cluster = node(release).start().unwrap();
        let plain = prepare(&cluster);
        let script = "sh look batch\nsrun -n2 sh look step\n";
        let options = ["-n2", "--gres=gpu:2", "--dist-env", "--gpu-numa-bind"];
        let id = cluster.sbatch_as(User::Alice, &options, script).unwrap();
        cluster
            .wait_job_state(id, "COMPLETED", Duration::from_secs(60))
            .unwrap();
        let said = cluster.job_output(User::Alice, id).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        assert_eq!(lines[0], plain.replace("plain", "batch"), "{said}");
        // The steps show that both plugins are at work: torch's variables, the report of the binding, CPU 0.
        for line in &lines[1..] {
            assert_eq!(*line, "step 10 ours, cpus 0", "{said}");
        }
        cluster.stop().unwrap();
    });
}

#[test]
fn an_interactive_step_is_no_rank() {
    on_each_spank_release(|release| {
        let cluster = node(release)
            .slurm_conf_extra(
                "LaunchParameters=use_interactive_step\n\
                 InteractiveStepOptions=\"--interactive --preserve-env sh interactive\"",
            )
            .start()
            .unwrap();
        let plain = prepare(&cluster);
        let script = cluster.path(cluster.controller(), "/home/alice/interactive");
        // 26.05 has the number negative.
        let look = "sh look step-$((SLURM_STEP_ID & 0xffffffff))\n";
        std::fs::write(script.unwrap(), look).unwrap();
        let salloc = cluster
            .command("salloc")
            .args(["-n2", "--gres=gpu:2", "--dist-env", "--gpu-numa-bind"])
            .user(User::Alice);
        let said = salloc.run().unwrap().ok().unwrap();
        // SLURM_INTERACTIVE_STEP of slurm.h.
        let expected = plain.replace("plain", "step-4294967290");
        assert_eq!(said.stdout.trim_end(), expected, "{said}");
        assert!(!said.stderr.contains("sgpu"), "{said}");
        cluster.stop().unwrap();
    });
}

/// 26.05's has no process.
#[test]
fn the_external_step_is_no_rank() {
    on_each_release(|release| {
        let cluster = node(release)
            .slurm_conf_extra("PrologFlags=Contain")
            .start()
            .unwrap();
        let plain = prepare(&cluster);
        let options = ["-n2", "--gres=gpu:2", "--dist-env", "--gpu-numa-bind"];
        let script = "srun -n2 sh look step\ntouch ran\nwhile ! [ -e stop ]; do sleep 0.1; done\n";
        let id = cluster.sbatch_as(User::Alice, &options, script).unwrap();
        let home = |name: &str| {
            let path = format!("/home/alice/{name}");
            cluster.path(cluster.controller(), &path).unwrap()
        };
        cluster
            .wait_until("the job's step", Duration::from_secs(60), || {
                home("ran").exists().then_some(()).ok_or_else(String::new)
            })
            .unwrap();
        // What holds the external step's place: a sleep without end below a slurmstepd.
        let all = cluster.processes();
        let holder = all.iter().find(|process| {
            let words: Vec<&str> = process.command.split_whitespace().collect();
            matches!(words[..], [_, "infinity" | "100000000"]) && process.name == "sleep"
        });
        let holder = holder.unwrap_or_else(|| panic!("{all:#?}"));
        let of_holder = |file: &str| {
            let path = format!("/proc/{}/{file}", holder.host_pid);
            std::fs::read_to_string(path).unwrap()
        };
        let environment = of_holder("environ");
        for name in ["SGPU_", "MASTER_", "RANK=", "WORLD_SIZE=", "OMP_"] {
            let found = environment.split('\0').find(|word| word.starts_with(name));
            assert_eq!(found, None);
        }
        let status = of_holder("status");
        let cpus = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(
            plain,
            format!("plain 0 ours, cpus {}", cpus.unwrap().trim())
        );
        std::fs::write(home("stop"), "").unwrap();
        cluster
            .wait_job_state(id, "COMPLETED", Duration::from_secs(60))
            .unwrap();
        let said = cluster.job_output(User::Alice, id).unwrap();
        assert_eq!(said, "step 10 ours, cpus 0\n".repeat(2));
        cluster.stop().unwrap();
    });
}
