//! `spank_sgpu_bind` on real daemons. The nodes' GPUs and their place are the board's, the CPUs are this
//! machine's; what real nodes do with several NUMA nodes is `numa_guest`'s.

use std::time::Duration;

use fake_nvml::Scenario;
use gpu::CpuSet;
use harness::{Builder, Cluster, Output, Plugins, Release, User};

const PLUGSTACK: &str = "optional /opt/sgpu/plugins/spank_sgpu_bind.so\n";

/// Says what the task got: its number, the report, its CPUs, GPUs as CUDA sees them.
const TELL: &str = "echo \"$SLURM_PROCID|$SGPU_BIND|\
    $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)|$CUDA_VISIBLE_DEVICES\"";

/// GPUs 0 to 3 are on node 0 with CPUs 0-63, 4 to 7 on node 1 with 64-127.
fn node(release: Release) -> Builder {
    let node = Cluster::builder(release)
        .scenario(Scenario::board("8xh100-sxm5"))
        .etc_slurm("plugstack.conf", PLUGSTACK);
    suites::gpus::of_the_board(node, release, 8)
}

/// A task, as it told.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    report: String,
    cpus: CpuSet,
    cuda: String,
}

/// The tasks of a step, in order, and what else it said.
fn step(cluster: &Cluster, words: &[&str]) -> (Vec<Told>, Output) {
    let mut all = words.to_vec();
    all.extend(["sh", "-c", TELL]);
    let said = cluster.run("srun", &all).unwrap().ok().unwrap();
    let mut lines: Vec<&str> = said.stdout.lines().collect();
    lines.sort_unstable();
    let told = lines.iter().map(|line| {
        let fields: Vec<&str> = line.split('|').collect();
        Told {
            report: fields[1].to_owned(),
            cpus: fields[2].parse().unwrap(),
            cuda: fields[3].to_owned(),
        }
    });
    (told.collect(), said)
}

fn reports(told: &[Told]) -> Vec<&str> {
    told.iter().map(|task| task.report.as_str()).collect()
}

/// What a task may use when nobody binds it: the first CPUs of this machine.
fn machine(cluster: &Cluster) -> CpuSet {
    let (told, _) = step(cluster, &["--gres=gpu:1"]);
    assert_eq!(reports(&told), [""], "without a word nothing is bound");
    told[0].cpus.clone()
}

#[test]
fn tasks_are_bound_and_told() {
    suites::on_each_spank_release(|release| {
        let cluster = node(release).start().unwrap();
        let machine = machine(&cluster);
        let near = machine.intersection(&CpuSet::from_range(0, 63));

        let (told, said) = step(&cluster, &["--gres=gpu:2", "--gpu-numa-bind"]);
        assert_eq!(
            told[0].report,
            format!("closest gpus=0,1 cpus={near} mem=local")
        );
        assert_eq!(told[0].cpus, near);
        assert_eq!(told[0].cuda, "0,1", "CUDA_VISIBLE_DEVICES is Slurm's");
        assert!(!said.stderr.contains("spank_sgpu_bind"), "{said}");

        // Two tasks and two GPUs: one each, and no core in common.
        let (told, said) = step(
            &cluster,
            &[
                "-n2",
                "--gres=gpu:2",
                "--gpu-numa-bind=node,verbose",
                "--gpu-numa-mem=off",
            ],
        );
        for (task, told) in told.iter().enumerate() {
            // Node 0 is this machine's own, which has the board's CPUs or fewer.
            assert!(
                told.report.starts_with(&format!("node gpus={task} cpus=")),
                "{told:?}"
            );
            assert!(told.report.ends_with(" mem=off"), "{told:?}");
            assert!(told.cpus.is_subset(&machine) && !told.cpus.is_empty());
            let line = format!("spank_sgpu_bind: task {task}: {}", told.report);
            assert!(said.stderr.contains(&line), "{said}");
        }
        if machine.len() > 1 {
            assert!(
                told[0].cpus.intersection(&told[1].cpus).is_empty(),
                "{told:?}"
            );
        }

        // Memory of node 0, on a kernel that has it.
        let (told, _) = step(&cluster, &["--gres=gpu:1", "--gpu-numa-mem=preferred"]);
        assert!(
            told[0].report.ends_with(" mem=preferred:0")
                || told[0].report.ends_with(" mem=refused"),
            "{told:?}"
        );
        cluster.stop().unwrap();
    });
}

#[test]
fn a_far_gpu_leaves_its_task_as_it_is() {
    suites::on_each_spank_release(|release| {
        let cluster = node(release).start().unwrap();
        let machine = machine(&cluster);
        let (told, said) = step(&cluster, &["-n8", "--gres=gpu:8", "--gpu-numa-bind"]);
        for (task, told) in told.iter().enumerate() {
            let bound = told.report.starts_with(&format!("closest gpus={task} "));
            let far = machine
                .intersection(&CpuSet::from_range(64, 127))
                .is_empty()
                && task >= 4;
            assert_eq!(bound, !far, "{told:?}");
            if far {
                let report = format!("none: no CPU of {machine} is near GPU {task} (CPUs 64-127)");
                assert_eq!(told.report, report);
                assert_eq!(told.cpus, machine);
                // Who asked is told, once a task.
                let line = format!("spank_sgpu_bind: task {task}: {report}");
                assert_eq!(said.stderr.matches(&line).count(), 1, "{said}");
            }
        }
        cluster.stop().unwrap();
    });
}

/// Slurm gives each task the same SLURM_STEP_GPUS here, that of the step's first GPU.
#[test]
fn gpus_bound_to_tasks_are_those_they_can_open() {
    suites::on_each_spank_release(|release| {
        let cluster = node(release).start().unwrap();
        let (told, _) = step(
            &cluster,
            &[
                "-n2",
                "--gpus-per-task=1",
                "--gpu-numa-bind",
                "--gres-flags=disable-binding",
            ],
        );
        assert!(told[0].report.starts_with("closest gpus=0 "), "{told:?}");
        assert!(told[1].report.starts_with("closest gpus=1 "), "{told:?}");
        assert_eq!((told[0].cuda.as_str(), told[1].cuda.as_str()), ("0", "0"));
        if told[0].cpus.union(&told[1].cpus).len() > 1 {
            let shared = told[0].cpus.intersection(&told[1].cpus);
            assert!(shared.is_empty(), "{told:?}");
        }
        // Without any binding of GPUs, 22.05 tells a task nothing of them.
        let (told, _) = step(
            &cluster,
            &["-n2", "--gres=gpu:2", "--gpu-bind=none", "--gpu-numa-bind"],
        );
        assert!(told[0].report.starts_with("closest gpus=0 "), "{told:?}");
        assert!(told[1].report.starts_with("closest gpus=1 "), "{told:?}");
        cluster.stop().unwrap();
    });
}

#[test]
fn a_wrong_value_is_refused_before_there_is_a_job() {
    suites::on_each_spank_release(|release| {
        let cluster = node(release).start().unwrap();
        for (option, word) in [
            ("--gpu-numa-bind=nearest", "nearest"),
            ("--gpu-numa-bind=node,socket", "two modes"),
            ("--gpu-numa-mem=interleave", "interleave"),
        ] {
            let said = cluster.run("srun", [option, "true"]).unwrap();
            let said = said.failed().unwrap();
            assert!(said.stderr.contains(word), "{said}");
        }
        let jobs = cluster
            .run("squeue", ["-h", "-t", "all"])
            .unwrap()
            .ok()
            .unwrap();
        assert_eq!(jobs.stdout, "");
        cluster.stop().unwrap();
    });
}

#[test]
fn the_sites_default_and_who_goes_without() {
    suites::on_each_spank_release(|release| {
        let cluster = node(release)
            .etc_slurm(
                "sgpu.toml",
                "[bind]\nmode = \"closest\"\n[[class]]\nnodes = \"other\"\nbind.mode = \"off\"\n",
            )
            .start()
            .unwrap();
        let report = |words: &[&str]| step(&cluster, words).0.remove(0).report;
        assert!(report(&["--gres=gpu:1"]).starts_with("closest gpus=0 "));
        assert_eq!(report(&["--gres=gpu:1", "--gpu-numa-bind=off"]), "");
        // No GPU, no notice.
        let (told, said) = step(&cluster, &["-n1"]);
        assert_eq!(reports(&told), ["none: no GPUs"]);
        assert!(!said.stderr.contains("spank_sgpu_bind"), "{said}");
        // The batch script is not bound, its steps are.
        let script = "#!/bin/sh\n#SBATCH --gres=gpu:1\necho \"script: $SGPU_BIND\"\n\
            srun sh -c 'echo \"step: $SGPU_BIND\"'\n";
        let job = cluster.sbatch(script).unwrap();
        cluster
            .wait_job_state(job, "COMPLETED", Duration::from_secs(60))
            .unwrap();
        let text = cluster.job_output(User::Alice, job).unwrap();
        assert!(text.contains("script: \n"), "{text}");
        assert!(text.contains("step: closest gpus=0 "), "{text}");
        cluster.stop().unwrap();
    });
}

/// No map is published: a gres.conf by hand, and GPUs go by their minor numbers. task/affinity spreads the
/// tasks.
#[test]
fn explicit_bindings_are_the_users() {
    suites::on_each_spank_release(|release| {
        let cluster = Cluster::builder(release)
            .scenario(Scenario::board("8xh100-sxm5"))
            .plugins(Plugins::Ours)
            .cpus_hwloc("pack:1 core:2 pu:1")
            .slurm_conf_extra("TaskPlugin=task/affinity,task/cgroup")
            .gres_conf("AutoDetect=off\nName=gpu File=/dev/nvidia[0-3]")
            .node_gres("gpu:4")
            .etc_slurm("plugstack.conf", PLUGSTACK)
            .start()
            .unwrap();
        let report = |words: &[&str]| step(&cluster, words).0.remove(0).report;
        // Slurm's own spread is no binding of the user's.
        let (told, _) = step(&cluster, &["-n2", "--gres=gpu:2", "--gpu-numa-bind"]);
        assert_eq!(
            reports(&told),
            [
                "closest gpus=0 cpus=0 mem=local",
                "closest gpus=1 cpus=1 mem=local"
            ]
        );
        for (option, kind) in [
            ("--cpu-bind=map_cpu:0", "--cpu-bind=map_cpu"),
            ("--cpu-bind=cores", "--cpu-bind=cores"),
            ("--cpu-bind=none", "--cpu-bind=none"),
            ("--mem-bind=local", "--mem-bind=local"),
        ] {
            let (told, said) = step(&cluster, &["--gres=gpu:1", "--gpu-numa-bind", option]);
            let report = format!("none: the user's {kind}");
            assert_eq!(reports(&told), [report.as_str()]);
            assert!(said.stderr.contains(&report), "{said}");
        }
        assert!(
            report(&["--gres=gpu:1", "--gpu-numa-bind", "--cpu-bind=verbose"])
                .starts_with("closest gpus=0 ")
        );
        cluster
            .write_etc(
                "plugstack.conf",
                &PLUGSTACK.replace(".so", ".so respect_cpu_bind=no"),
            )
            .unwrap();
        assert_eq!(
            report(&["--gres=gpu:1", "--gpu-numa-bind", "--cpu-bind=map_cpu:0"]),
            "closest gpus=0 cpus=0 mem=local"
        );
        cluster.stop().unwrap();
    });
}

/// A MIG device is where its GPU is; which that is, the map says that our gpu plugin publishes.
#[test]
fn mig_devices() {
    suites::on_each_release(|release| {
        let cluster = Cluster::builder(release)
            .scenario(Scenario::board("h100-mig-7x1g"))
            .plugins(Plugins::Ours)
            .gres_conf("AutoDetect=nvml")
            .node_gres("gpu:14")
            .etc_slurm("plugstack.conf", PLUGSTACK)
            .start()
            .unwrap();
        let (told, _) = step(&cluster, &["--gres=gpu:1", "--gpu-numa-bind"]);
        assert!(told[0].report.starts_with("closest gpus=0 "), "{told:?}");
        assert!(told[0].cuda.starts_with("MIG-"), "{told:?}");
        cluster.stop().unwrap();
    });
}
