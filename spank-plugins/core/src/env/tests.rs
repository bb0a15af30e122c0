//! Tasks as Slurm starts them, and what they get.

use std::collections::BTreeMap;

use sgpu_config::{Env, Profile};

use super::port::Taken;
use super::*;

/// A task, with everything that a test may change.
struct Task {
    env: BTreeMap<String, String>,
    exported: Exported,
    job_id: u32,
    step_id: u32,
    restart_count: u32,
    local_tasks: u32,
    tasks: u32,
    cpus: Option<TaskCpus>,
    slurm: (u32, u32),
    options: Options,
    config: Env,
}

/// Task 5 of 8 on node001 and node002, four on each; job 1000, step 0.
fn task() -> Task {
    let env = [
        ("SLURM_JOB_ID", "1000"),
        ("SLURM_PROCID", "5"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_NODEID", "1"),
        ("SLURM_NTASKS", "64"),
        ("SLURM_STEP_NUM_TASKS", "8"),
        ("SLURM_STEP_NUM_NODES", "2"),
        ("SLURM_STEP_NODELIST", "node[001-002]"),
        ("SLURM_CPUS_ON_NODE", "32"),
    ];
    Task {
        env: env
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        exported: Exported::default(),
        job_id: 1000,
        step_id: 0,
        restart_count: 0,
        local_tasks: 4,
        tasks: 8,
        cpus: None,
        slurm: (24, 11),
        options: Options {
            profile: Some(Profile::Torch),
            ..Options::default()
        },
        config: Env::default(),
    }
}

impl Task {
    fn with(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    /// The task that speaks for the step.
    fn first(self) -> Self {
        self.with("SLURM_PROCID", "0")
            .with("SLURM_LOCALID", "0")
            .with("SLURM_NODEID", "0")
    }

    fn profile(mut self, profile: Option<Profile>) -> Self {
        self.options.profile = profile;
        self
    }

    fn force(mut self) -> Self {
        self.options.force = true;
        self
    }

    fn plan(&self) -> Plan {
        plan(&Facts {
            task: &|name| self.env.get(name).cloned(),
            exported: &self.exported,
            job_id: self.job_id,
            step_id: self.step_id,
            restart_count: self.restart_count,
            local_tasks: self.local_tasks,
            tasks: self.tasks,
            cpus: self.cpus,
            slurm: self.slurm,
            options: &self.options,
            config: &self.config,
            taken: Taken {
                kernel: Some((32_768, 60_999)),
                srun: None,
            },
            node: Node {
                interfaces: &["lo".to_owned(), "ib0".to_owned()],
                hcas: &[],
                has_file: &|path| path == "/etc/nccl.conf",
            },
        })
    }

    /// A variable of the plan.
    fn gets(&self, name: &str) -> Option<String> {
        let plan = self.plan();
        let found = plan.set.into_iter().find(|(set, _)| set == name);
        found.map(|(_, value)| value)
    }

    fn set(&self) -> Vec<String> {
        let set = self.plan().set;
        set.into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    fn notice(&self) -> String {
        self.plan().notices.join("\n")
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn torch_has_its_ten() {
    assert_eq!(
        task().set(),
        [
            "MASTER_ADDR=node001",
            // 1000 * 31 = 6 * 4536 + 3784
            "MASTER_PORT=64784",
            "RANK=5",
            "WORLD_SIZE=8",
            "LOCAL_RANK=1",
            "LOCAL_WORLD_SIZE=4",
            "NODE_RANK=1",
            "NNODES=2",
            "SGPU_DIST_PROFILE=torch",
        ]
    );
    assert_eq!(task().notice(), "");
    assert_eq!(task().first().notice(), "");
}

#[test]
fn elastic_has_torchs_and_its_own() {
    let set = task().profile(Some(Profile::Elastic)).set();
    assert!(set.starts_with(&task().set()[..8]));
    assert_eq!(
        set[8..],
        [
            "GROUP_RANK=1",
            "GROUP_WORLD_SIZE=2",
            "ROLE_RANK=5",
            "ROLE_WORLD_SIZE=8",
            "SGPU_DIST_PROFILE=elastic",
        ]
    );
}

#[test]
fn torchrun_has_its_options_and_no_ranks() {
    let mut launcher = task()
        .profile(Some(Profile::Torchrun))
        .with("SLURM_STEP_NUM_TASKS", "2")
        .with("SLURM_PROCID", "1")
        .with("SLURM_LOCALID", "0")
        .with("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7");
    (launcher.tasks, launcher.local_tasks) = (2, 1);
    (launcher.step_id, launcher.restart_count) = (3, 1);
    assert_eq!(
        launcher.set(),
        [
            "PET_NNODES=2",
            "PET_NPROC_PER_NODE=8",
            "PET_NODE_RANK=1",
            "PET_MASTER_ADDR=node001",
            // 31,000 + 3 * 977 + 7 = 33,938 = 7 * 4536 + 2186
            "PET_MASTER_PORT=63186",
            "PET_RDZV_ID=1000.3.1",
            "SGPU_DIST_PROFILE=torchrun",
        ]
    );
    let plain = launcher.without("CUDA_VISIBLE_DEVICES");
    assert_eq!(plain.gets("PET_NPROC_PER_NODE"), None);
}

#[test]
fn torchrun_with_more_tasks_than_nodes_is_told() {
    let launchers = task().first().profile(Some(Profile::Torchrun));
    assert_eq!(launchers.set(), NOTHING);
    assert!(launchers.notice().contains("8 tasks on 2 nodes"));
    // Who did not ask is not told.
    let mut sites = task().first().profile(None);
    sites.config.profile = Some(Profile::Torchrun);
    assert_eq!((sites.set(), sites.notice()), (vec![], String::new()));
}

#[test]
fn the_address_is_the_first_host_of_the_step() {
    for (list, address) in [
        ("node[001-003,007]", "node001"),
        ("nodeA,nodeB[001,003]", "nodeA"),
        ("gpu-a[12-15]", "gpu-a12"),
        ("rack[0-1]_blade[0-1]", "rack0_blade0"),
    ] {
        let task = task().with("SLURM_STEP_NODELIST", list);
        assert_eq!(task.gets("MASTER_ADDR").as_deref(), Some(address));
    }
}

#[test]
fn a_list_that_is_none_leaves_all_alone() {
    let odd = task().with("SLURM_STEP_NODELIST", "[a]");
    assert_eq!((odd.set(), odd.notice()), (vec![], String::new()));
    let first = odd.first();
    assert_eq!(first.plan().notices.len(), 1);
    assert!(first.notice().contains("[a]"), "{}", first.notice());
}

#[test]
fn a_template_makes_the_address() {
    let mut task = task();
    task.config.master_addr = Some("{node}-ib.example".into());
    assert_eq!(
        task.gets("MASTER_ADDR").as_deref(),
        Some("node001-ib.example")
    );
    task.config.master_addr = Some("10.0.0.1".into());
    let task = task.with("SLURM_STEP_NODELIST", "[a]");
    assert_eq!(task.gets("MASTER_ADDR").as_deref(), Some("10.0.0.1"));
}

#[test]
fn a_step_within_a_job_is_counted_by_itself() {
    // A job on n[1-4]: srun -N1 -w n3 -n8.
    let mut task = task()
        .with("SLURM_JOB_NODELIST", "n[1-4]")
        .with("SLURM_STEP_NODELIST", "n3")
        .with("SLURM_STEP_NUM_NODES", "1")
        .with("SLURM_NODEID", "0")
        .with("SLURM_NTASKS", "32");
    task.local_tasks = 8;
    for (name, value) in [
        ("MASTER_ADDR", "n3"),
        ("WORLD_SIZE", "8"),
        ("NODE_RANK", "0"),
        ("NNODES", "1"),
        ("LOCAL_WORLD_SIZE", "8"),
    ] {
        assert_eq!(task.gets(name).as_deref(), Some(value), "{name}");
    }
}

#[test]
fn ports_differ_between_jobs_steps_and_restarts() {
    let port = |job_id, step_id, restart_count| {
        let mut task = task();
        (task.job_id, task.step_id, task.restart_count) = (job_id, step_id, restart_count);
        task.gets("MASTER_PORT").unwrap()
    };
    assert_eq!(port(1000, 0, 0), "64784");
    assert_eq!(port(1001, 0, 0), "64815");
    assert_eq!(port(1000, 1, 0), "61225");
    assert_eq!(port(1000, 0, 1), "64791");
    // As srun passes it on.
    let passed = task().with("SLURM_RESTART_COUNT", "1");
    assert_eq!(passed.gets("MASTER_PORT").as_deref(), Some("64791"));
}

#[test]
fn the_port_is_the_users_then_slurms_then_ours() {
    let mut task = task().with("SLURM_STEP_RESV_PORTS", "12001-12008");
    assert_eq!(task.gets("MASTER_PORT").as_deref(), Some("12001"));
    task.options.port = Some(23_456);
    assert_eq!(task.gets("MASTER_PORT").as_deref(), Some("23456"));
    let task = task.with("MASTER_PORT", "7000");
    assert_eq!(task.gets("MASTER_PORT"), None);
    let jax = task.profile(Some(Profile::Jax));
    assert_eq!(
        jax.gets("JAX_COORDINATOR_ADDRESS").as_deref(),
        Some("node001:7000")
    );
    assert_eq!(
        jax.force().gets("JAX_COORDINATOR_ADDRESS").as_deref(),
        Some("node001:23456")
    );
}

#[test]
fn slurms_own_steps_get_nothing() {
    // Batch, extern, interactive, and the least of them.
    for step in [0xffff_fffb, 0xffff_fffc, 0xffff_fffa, 0xffff_fff0] {
        let mut task = task().first();
        task.step_id = step;
        task.config.profile = Some(Profile::Auto);
        assert_eq!(task.plan(), Plan::default(), "{step:#x}");
    }
    let mut last = task();
    last.step_id = 0xffff_ffef;
    assert_ne!(last.plan(), Plan::default());
}

#[test]
fn who_does_not_ask_gets_the_sites_with_more_than_one_task() {
    let one = |task: Task| {
        let mut task = task.first().with("SLURM_STEP_NUM_TASKS", "1");
        (task.tasks, task.local_tasks) = (1, 1);
        task.gets("SGPU_DIST_PROFILE")
    };
    let many = |task: Task| task.gets("SGPU_DIST_PROFILE");
    let sites = |profile| {
        let mut task = task().profile(None);
        task.config.profile = profile;
        task
    };
    let some = |name: &str| Some(name.to_owned());
    for (site, expected) in [
        (None, None),
        (Some(Profile::Off), None),
        (Some(Profile::Auto), some("torch")),
        (Some(Profile::Jax), some("jax")),
    ] {
        assert_eq!(many(sites(site)), expected, "{site:?}");
        assert_eq!(one(sites(site)), None, "{site:?}");
    }
    // Who asks gets it for one task too; without a value, the site's.
    assert_eq!(one(task()), some("torch"));
    assert_eq!(one(task().profile(Some(Profile::Auto))), some("torch"));
    assert_eq!(
        many(sites(Some(Profile::Jax)).profile(Some(Profile::Auto))),
        some("jax")
    );
    assert_eq!(
        many(sites(Some(Profile::Off)).profile(Some(Profile::Auto))),
        some("torch")
    );
    assert_eq!(
        many(sites(Some(Profile::Auto)).profile(Some(Profile::Off))),
        None
    );
}

#[test]
fn options_that_do_nothing_alone_say_so() {
    let mut task = task().first().profile(None);
    task.options.port = Some(5000);
    assert_eq!(task.set(), NOTHING);
    assert!(task.notice().contains("--dist-env"));
    assert_eq!(task.profile(Some(Profile::Off)).notice(), "");
}

#[test]
fn what_the_user_exported_is_kept_and_the_rest_is_filled() {
    let task = task().with("MASTER_ADDR", "10.1.2.3");
    assert_eq!(task.gets("MASTER_ADDR"), None);
    assert_eq!(task.gets("RANK").as_deref(), Some("5"));
    assert!(!task.plan().replace);
    let first = task.first();
    assert_eq!(first.plan().notices.len(), 1);
    assert!(first.notice().contains("MASTER_ADDR"));
    let forced = first.force();
    assert_eq!(forced.gets("MASTER_ADDR").as_deref(), Some("node001"));
    assert!(forced.plan().replace);
    assert_eq!(forced.notice(), "");
}

#[test]
fn ranks_of_the_user_leave_all_alone() {
    for (name, value) in [("RANK", "7"), ("WORLD_SIZE", "16"), ("LOCAL_RANK", "x")] {
        let task = task().with(name, value);
        assert_eq!(task.set(), NOTHING, "{name}");
        assert_eq!(task.notice(), "");
        let first = task.first();
        assert_eq!(first.plan().notices.len(), 1);
        assert!(first.notice().contains(&format!("{name}={value}")));
        assert_eq!(first.force().gets("RANK").as_deref(), Some("0"));
    }
}

#[test]
fn all_tasks_agree_on_a_rank_that_the_user_exported() {
    // RANK=5 in all tasks: task 5 must not think that it is right.
    let mut same = task().with("RANK", "5");
    same.exported.rank = true;
    assert_eq!(same.set(), NOTHING);
    let mut local = task().with("LOCAL_RANK", "1");
    local.exported.local_rank = true;
    assert_eq!(local.set(), NOTHING);
    // One task on each node: LOCAL_RANK=0 is right in all.
    let mut alone = task()
        .with("LOCAL_RANK", "0")
        .with("SLURM_LOCALID", "0")
        .with("SLURM_STEP_NUM_TASKS", "2")
        .with("SLURM_PROCID", "1");
    (alone.tasks, alone.local_tasks, alone.exported.local_rank) = (2, 1, true);
    assert_eq!(alone.gets("RANK").as_deref(), Some("1"));
}

#[test]
fn ranks_that_agree_are_no_conflict() {
    // As pyxis sets them for each task, before this plugin.
    let task = task().with("RANK", "5").with("LOCAL_RANK", "1");
    assert_eq!(task.gets("RANK"), None);
    assert_eq!(task.gets("WORLD_SIZE").as_deref(), Some("8"));
    assert_eq!(task.notice(), "");
}

#[test]
fn another_launcher_is_left_alone() {
    for (name, value) in [("SUBMITIT_EXECUTOR", "slurm"), ("TORCHELASTIC_RUN_ID", "1")] {
        let task = task().first().force().with(name, value);
        assert_eq!(task.set(), NOTHING, "{name}");
        assert!(task.notice().contains(name));
        // Who did not ask is not told.
        let mut quiet = task.profile(None);
        quiet.options.force = false;
        quiet.config.profile = Some(Profile::Auto);
        assert_eq!((quiet.set(), quiet.notice()), (vec![], String::new()));
    }
}

#[test]
fn jax_processes_share_the_gpus_that_they_see() {
    let ids = |gpus: &str, tasks: u32, task_id: u32, bind: Option<&str>| {
        let mut task = task()
            .profile(Some(Profile::Jax))
            .with("CUDA_VISIBLE_DEVICES", gpus)
            .with("SLURM_LOCALID", &task_id.to_string());
        if let Some(bind) = bind {
            task = task.with("SLURMD_TRES_BIND", bind);
        }
        task.local_tasks = tasks;
        task.gets("JAX_LOCAL_DEVICE_IDS").unwrap_or_default()
    };
    let eight = "0,1,2,3,4,5,6,7";
    assert_eq!(ids(eight, 8, 5, None), "5");
    assert_eq!(ids("0", 8, 5, Some("gres/gpu:per_task:1")), "0");
    assert_eq!(ids("0,1", 4, 3, Some("gres/gpu:per_task:2")), "0,1");
    assert_eq!(ids("0,1,2,3", 8, 6, None), "2");
    assert_eq!(ids("0,1,2,3", 8, 6, Some("gres/gpu:none")), "2");
    assert_eq!(ids("0,1,2,3", 1, 0, None), "0,1,2,3");
    assert_eq!(ids(eight, 2, 1, None), "4,5,6,7");
    assert_eq!(ids(eight, 3, 0, None), "0,1");
    assert_eq!(ids(eight, 3, 2, None), "5,6,7");
    // UUIDs count as numbers do.
    assert_eq!(ids("GPU-5ebe9f43,MIG-a-b", 2, 1, None), "1");
    assert_eq!(ids("NoDevFiles", 2, 1, None), "");
}

#[test]
fn jax_gets_the_coordinator_and_nothing_of_torch() {
    let set = task().profile(Some(Profile::Jax)).set();
    assert_eq!(
        set,
        [
            "JAX_COORDINATOR_ADDRESS=node001:64784",
            "SGPU_DIST_PROFILE=jax"
        ]
    );
}

#[test]
fn gpus_hidden_from_each_other_are_told_once() {
    let bound = |slurm| {
        let mut task = task()
            .first()
            .with("SLURMD_TRES_BIND", "gres/gpu:per_task:1");
        task.slurm = slurm;
        task
    };
    for (slurm, words) in [
        ((22, 5), "--gpus-per-node"),
        ((23, 11), "--gpu-bind=none"),
        ((24, 5), "allow-task-sharing"),
    ] {
        assert!(bound(slurm).notice().contains(words), "{slurm:?}");
    }
    assert!(!bound((22, 5)).notice().contains("--gpu-bind=none"));
    assert_eq!(bound((24, 11)).with("SLURM_PROCID", "1").notice(), "");
    assert_eq!(
        task()
            .first()
            .with("SLURMD_TRES_BIND", "gres/gpu:closest")
            .notice(),
        ""
    );
    assert_eq!(bound((24, 11)).gets("CUDA_VISIBLE_DEVICES"), None);
}

#[test]
fn threads_are_the_tasks_cores() {
    let threads = |cpus, cores, on_node: &str, tasks| {
        let mut task = task().with("SLURM_CPUS_ON_NODE", on_node);
        task.cpus = Some(TaskCpus { cpus, cores });
        task.local_tasks = tasks;
        task.gets("OMP_NUM_THREADS")
    };
    let some = |threads: &str| Some(threads.to_owned());
    // Bound: 8 CPUs of the step's 32, two to a core.
    assert_eq!(threads(8, 4, "32", 4), some("4"));
    // Not bound: the step's 32 CPUs, 16 cores, for four tasks.
    assert_eq!(threads(32, 16, "32", 4), some("4"));
    // Nor is the step: 32 of the machine's 128 CPUs.
    assert_eq!(threads(128, 64, "32", 4), some("4"));
    assert_eq!(threads(2, 2, "2", 4), some("1"));
    assert_eq!(threads(8, 4, "32", 1), None);

    let mut own = task().with("OMP_NUM_THREADS", "3");
    own.cpus = Some(TaskCpus { cpus: 8, cores: 8 });
    assert_eq!(
        (own.gets("OMP_NUM_THREADS"), own.first().notice()),
        (None, String::new())
    );
    let mut off = task();
    off.cpus = Some(TaskCpus { cpus: 8, cores: 8 });
    off.config.omp_num_threads = Some(false);
    assert_eq!(off.gets("OMP_NUM_THREADS"), None);
}

#[test]
fn the_sites_variables_are_set_where_they_hold() {
    let mut task = task().with("NCCL_DEBUG", "INFO").with("SLURM_LOCALID", "0");
    for (name, value) in [
        ("NCCL_SOCKET_IFNAME", "ib0"),
        ("GLOO_SOCKET_IFNAME", "eth7"),
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_CONF_FILE", "/etc/nccl.conf"),
        ("MASTER_ADDR", "elsewhere"),
        ("SITE", "x"),
    ] {
        task.config.set.insert(name.into(), value.into());
    }
    assert_eq!(
        task.set()[8..],
        [
            "NCCL_CONF_FILE=/etc/nccl.conf",
            "NCCL_SOCKET_IFNAME=ib0",
            "SITE=x",
            "SGPU_DIST_PROFILE=torch",
        ]
    );
    assert_eq!(task.gets("MASTER_ADDR").as_deref(), Some("node001"));
    // Told once on each node.
    assert_eq!(task.plan().notices.len(), 1);
    assert!(task.notice().contains("GLOO_SOCKET_IFNAME=eth7"));
    assert_eq!(task.with("SLURM_LOCALID", "1").notice(), "");
}

/// The second component, job 1001 of 1000: 2 of the step's 6 tasks. The first one is on n[3-4], and srun has
/// sorted the list.
fn component() -> Task {
    let mut task = task()
        .with("SLURM_STEP_NUM_TASKS", "6")
        .with("SLURM_STEP_NODELIST", "n[1,3-4]")
        .with("SLURM_JOB_NODELIST_HET_GROUP_0", "n[2-4]")
        .with("SLURM_JOB_NODELIST_HET_GROUP_1", "n1");
    (task.job_id, task.tasks) = (1001, 2);
    task
}

#[test]
fn a_heterogeneous_step_agrees_on_address_and_port() {
    // Each component has ports of its own.
    let mut task = component().with("SLURM_STEP_RESV_PORTS", "12009-12010");
    assert_eq!(task.gets("MASTER_ADDR").as_deref(), Some("n3"));
    assert_eq!(task.gets("MASTER_PORT").as_deref(), Some("64784"));
    assert_eq!(task.gets("WORLD_SIZE").as_deref(), Some("6"));
    // A step in that component alone.
    task.tasks = 6;
    let alone = task.without("SLURM_STEP_RESV_PORTS");
    assert_eq!(alone.gets("MASTER_ADDR").as_deref(), Some("n1"));
    assert_eq!(alone.gets("MASTER_PORT").as_deref(), Some("64815"));
}

#[test]
fn where_it_is_not_known_which_component_is_first_nothing_is_guessed() {
    let bare = component()
        .first()
        .without("SLURM_JOB_NODELIST_HET_GROUP_0")
        .without("SLURM_JOB_NODELIST_HET_GROUP_1");
    assert_eq!(bare.set(), NOTHING);
    assert!(bare.notice().contains("n[1,3-4]"), "{}", bare.notice());
    let old = bare
        .with("SLURM_JOB_NODELIST_PACK_GROUP_0", "n[3-4]")
        .with("SLURM_JOB_NODELIST_PACK_GROUP_1", "n1");
    assert_eq!(old.gets("MASTER_ADDR").as_deref(), Some("n3"));
}

#[test]
fn what_slurm_does_not_say_leaves_all_alone() {
    for name in [
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_STEP_NUM_NODES",
        "SLURM_STEP_NODELIST",
    ] {
        let task = task().first().without(name);
        assert_eq!(task.set(), NOTHING, "{name}");
        assert!(task.notice().contains(name), "{name}");
    }
    assert_eq!(task().without("SLURM_PROCID").set(), NOTHING);
}
