//! Whole decisions on machines as sysfs shows them.

use gpu::CpuSet;
use gpu::index_map::MigPart;
use proptest::prelude::*;
use sgpu_config::{BindMode, MemoryPolicy};

use super::tree::Machine;
use super::*;

fn settings(mode: BindMode, memory: MemoryPolicy) -> Settings {
    Settings {
        mode,
        memory,
        respect_cpu_bind: true,
        network: true,
        verbose: false,
        asked: true,
    }
}

fn closest() -> Settings {
    settings(BindMode::Closest, MemoryPolicy::Local)
}

/// A task of a step that shares `gpus`, with no binding by task/affinity.
fn task(local_id: u32, local_tasks: u32, affinity: &str, gpus: &str) -> Task {
    let gpus = Some(gpus.to_owned());
    Task {
        local_id,
        local_tasks,
        affinity: affinity.parse().unwrap(),
        denied: Vec::new(),
        step: StepVariables {
            gpus: gpus.clone(),
            ..StepVariables::default()
        },
        own: TaskVariables {
            gpus,
            ..TaskVariables::default()
        },
    }
}

/// NPS4 on two sockets' worth of nodes: 8 nodes of 16 cores, two threads each; node k has CPUs 16k to
/// 16k + 15 and 128 more than each. GPUs on nodes 3, 3, 1, 1, 7, 7, 5, 5.
fn nps4() -> Machine {
    [3, 3, 1, 1, 7, 7, 5, 5]
        .into_iter()
        .fold(Machine::new(8, 16, 2, 2), Machine::gpu)
}

#[test]
fn eight_tasks_on_nps4_get_disjoint_halves_of_their_gpus_nodes() {
    let host = nps4().host(BindMode::Closest);
    let cpus: Vec<String> = (0..8)
        .map(|id| task(id, 8, "0-255", "0,1,2,3,4,5,6,7"))
        .map(|task| decide(&host, &closest(), &task).unwrap())
        .map(|bound| format!("{} {}", list(&bound.gpus), bound.cpus))
        .collect();
    assert_eq!(
        cpus,
        [
            "0 48-55,176-183",
            "1 56-63,184-191",
            "2 16-23,144-151",
            "3 24-31,152-159",
            "4 112-119,240-247",
            "5 120-127,248-255",
            "6 80-87,208-215",
            "7 88-95,216-223",
        ]
    );
}

/// The same where Slurm has given each task 16 CPUs of its own: 8 nodes of 8 cores, two threads each, of which
/// node k has CPUs 8k to 8k + 7 and 64 more than each, and task k those of node k. Two GPUs are on each of four
/// nodes, side by side or not.
#[test]
fn eight_tasks_of_16_cpus_on_nps4() {
    let halves = [
        "24-27,88-91",
        "28-31,92-95",
        "8-11,72-75",
        "12-15,76-79",
        "56-59,120-123",
        "60-63,124-127",
        "40-43,104-107",
        "44-47,108-111",
    ];
    for (nodes, places) in [
        ([3, 3, 1, 1, 7, 7, 5, 5], [0, 1, 2, 3, 4, 5, 6, 7]),
        ([3, 1, 7, 5, 3, 1, 7, 5], [0, 2, 4, 6, 1, 3, 5, 7]),
    ] {
        let host = nodes
            .into_iter()
            .fold(Machine::new(8, 8, 2, 2), Machine::gpu)
            .host(BindMode::Closest);
        let masks: Vec<String> = (0..8)
            .map(|node| format!("{:#034x}", (0xff_u128 << 64 | 0xff) << (8 * node)))
            .collect();
        for id in 0..8 {
            let (low, high) = (8 * id, 64 + 8 * id);
            let own = format!("{low}-{},{high}-{}", low + 7, high + 7);
            let mut task = task(id, 8, &own, "0,1,2,3,4,5,6,7");
            task.own.cpu_bind_type = Some("mask_cpu:".into());
            task.own.cpu_bind_list = Some(masks.join(","));
            let bound = decide(&host, &closest(), &task).unwrap();
            assert_eq!(bound.gpus, [id]);
            let place: usize = places[id as usize];
            assert_eq!(bound.cpus.to_string(), halves[place], "{nodes:?} {id}");
        }
    }
}

/// task/affinity has given task k CPUs 16k to 16k + 15: near its GPU for nobody but by chance. All of the
/// step's CPUs are dealt out anew.
#[test]
fn slurms_own_spread_is_dealt_out_anew() {
    let host = [3, 1, 2, 0]
        .into_iter()
        .fold(Machine::new(4, 16, 1, 1), Machine::gpu)
        .host(BindMode::Closest);
    let spread = |id: u32| {
        let low = id * 16;
        let mut task = task(id, 4, &format!("{low}-{}", low + 15), "0,1,2,3");
        task.own.cpu_bind_type = Some("mask_cpu:".into());
        task.own.cpu_bind_list = Some("0xffff,0xffff0000,0xffff00000000,0xffff000000000000".into());
        task
    };
    let cpus: Vec<String> = (0..4)
        .map(|id| {
            decide(&host, &closest(), &spread(id))
                .unwrap()
                .cpus
                .to_string()
        })
        .collect();
    assert_eq!(cpus, ["48-63", "16-31", "32-47", "0-15"]);
    // The user's own binding is his.
    let mut task = spread(0);
    task.step.cpu_bind = Some("quiet,cores".into());
    let aside = decide(&host, &closest(), &task).unwrap_err();
    assert_eq!(aside.to_string(), "none: the user's --cpu-bind=cores");
    // Where the site says so, it is narrowed, never widened.
    let force = Settings {
        respect_cpu_bind: false,
        ..closest()
    };
    let aside = decide(&host, &force, &task).unwrap_err();
    assert!(aside.why.contains("no CPU of 0-15"), "{aside}");
    task.own.gpus = Some("3".into());
    task.local_tasks = 1;
    let bound = decide(&host, &force, &task).unwrap();
    assert_eq!(bound.cpus.to_string(), "0-15");
}

#[test]
fn a_grant_on_another_node_changes_nothing() {
    let host = nps4().host(BindMode::Closest);
    let aside = decide(&host, &closest(), &task(0, 1, "0-15", "0")).unwrap_err();
    assert_eq!(
        aside.to_string(),
        "none: no CPU of 0-15 is near GPU 0 (CPUs 48-63,176-191)"
    );
    assert!(!aside.quiet);
}

#[test]
fn a_mig_device_is_where_its_gpu_is() {
    let mut machine = Machine::new(2, 4, 1, 2).gpu(0).gpu(1).gpu(1);
    let parent = machine.map.entries[1].pci;
    let mig = &mut machine.map.entries[2];
    mig.pci = parent;
    mig.uuid = Some("MIG-5".into());
    mig.mig = Some(MigPart {
        parent_uuid: "GPU-1".into(),
        gpu_instance_id: 1,
        compute_instance_id: 0,
    });
    let host = machine.host(BindMode::Closest);
    let mut task = task(0, 1, "0-7", "");
    task.own.cuda = Some("MIG-5".into());
    let bound = decide(&host, &closest(), &task).unwrap();
    assert_eq!(
        (bound.gpus, bound.cpus.to_string().as_str()),
        (vec![2], "4-7")
    );
    task.own.cuda = Some("MIG-6".into());
    let aside = decide(&host, &closest(), &task).unwrap_err();
    assert!(aside.why.contains("MIG-6") && !aside.quiet, "{aside}");
}

#[test]
fn a_gpu_without_a_node_binds_nothing() {
    let host = Machine::new(2, 4, 1, 2)
        .gpu(0)
        .gpu(-1)
        .host(BindMode::Closest);
    for gpus in ["1", "0,1"] {
        let aside = decide(&host, &closest(), &task(0, 1, "0-7", gpus)).unwrap_err();
        assert_eq!(
            aside.why,
            "the kernel knows no NUMA node of GPU 1 (0000:81:00.0)"
        );
    }
    // A task of the same step with another GPU is bound nevertheless.
    let bound = decide(&host, &closest(), &task(0, 2, "0-7", "0,1")).unwrap();
    assert_eq!(bound.cpus.to_string(), "0-3");
}

#[test]
fn three_modes() {
    // Four nodes of 4 cores on two sockets.
    let machine = Machine::new(4, 4, 1, 2).gpu(3);
    for (mode, cpus) in [
        (BindMode::Closest, "12-15"),
        (BindMode::Node, "12-15"),
        (BindMode::Socket, "8-15"),
    ] {
        let host = machine.host(mode);
        let policy = settings(mode, MemoryPolicy::Preferred);
        let bound = decide(&host, &policy, &task(0, 1, "0-15", "0")).unwrap();
        assert_eq!(bound.cpus.to_string(), cpus, "{mode}");
        assert_eq!(bound.nodes.to_string(), "3", "{mode}");
        assert_eq!(
            bound.report(&bound.cpus, true),
            format!("{mode} gpus=0 cpus={cpus} mem=preferred:3")
        );
        assert!(bound.report(&bound.cpus, false).ends_with(" mem=refused"));
    }
}

#[test]
fn one_task_with_two_gpus_has_both_nodes() {
    let host = Machine::new(2, 4, 1, 2)
        .gpu(0)
        .gpu(1)
        .host(BindMode::Closest);
    let policy = settings(BindMode::Closest, MemoryPolicy::Bind);
    let bound = decide(&host, &policy, &task(0, 1, "1-6", "0,1")).unwrap();
    assert_eq!(
        bound.report(&bound.cpus, true),
        "closest gpus=0,1 cpus=1-6 mem=bind:0-1"
    );
}

#[test]
fn more_tasks_than_gpus_share_one() {
    let host = Machine::new(2, 4, 2, 2).gpu(1).host(BindMode::Closest);
    let cpus: Vec<String> = (0..2)
        .map(|id| decide(&host, &closest(), &task(id, 2, "0-15", "0")).unwrap())
        .map(|bound| bound.cpus.to_string())
        .collect();
    assert_eq!(cpus, ["4-5,12-13", "6-7,14-15"]);
}

#[test]
fn a_bound_task_keeps_cpus_that_are_near() {
    let host = Machine::new(2, 4, 1, 2)
        .gpu(0)
        .gpu(1)
        .host(BindMode::Closest);
    let mut bound = task(1, 2, "4-5", "1");
    bound.own.tres_bind = Some("gres/gpu:closest".into());
    bound.own.cpu_bind_type = Some("mask_cpu:".into());
    bound.own.cpu_bind_list = Some("0x3,0x30".into());
    let found = decide(&host, &closest(), &bound).unwrap();
    assert_eq!(found.cpus.to_string(), "4-5");
    // Else it gets all of the step's that are; what the others get is not known.
    bound.affinity = "0-1".parse().unwrap();
    let found = decide(&host, &closest(), &bound).unwrap();
    assert_eq!(found.cpus.to_string(), "4-5");
}

/// Each task's affinity is the step's: without task/affinity Slurm gives nobody CPUs of his own.
#[test]
fn bound_tasks_share_the_steps_cpus_where_nobody_has_dealt_them_out() {
    let host = Machine::new(2, 4, 1, 2)
        .gpu(0)
        .gpu(0)
        .host(BindMode::Closest);
    let cpus: Vec<String> = (0..2)
        .map(|id| {
            let mut bound = task(id, 2, "0-3", "0,1");
            bound.own.tres_bind = Some("gres/gpu:per_task:1".into());
            bound.denied = vec![1 - id];
            decide(&host, &closest(), &bound).unwrap().cpus.to_string()
        })
        .collect();
    assert_eq!(cpus, ["0-1", "2-3"]);
}

#[test]
fn the_nearest_network_devices() {
    let host = Machine::new(2, 4, 1, 2)
        .gpu(0)
        .gpu(1)
        .rdma("mlx5_0", 0, 0)
        .rdma("mlx5_1", 1, 1)
        .host(BindMode::Closest);
    let network = |gpus| {
        let bound = decide(&host, &closest(), &task(0, 1, "0-7", gpus)).unwrap();
        bound.network.join(" ")
    };
    assert_eq!(network("0"), "mlx5_0");
    assert_eq!(network("1"), "mlx5_1");
    assert_eq!(network("0,1"), "mlx5_0 mlx5_1");
    let names = ["mlx5_0".to_owned(), "mlx5_1".to_owned()];
    assert_eq!(
        network_variables(&names),
        [
            ("SGPU_NIC", "mlx5_0,mlx5_1".to_owned()),
            ("NCCL_IB_HCA", "=mlx5_0,mlx5_1".to_owned()),
            ("UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1".to_owned()),
        ]
    );
    assert!(network_variables(&[]).is_empty());
}

#[test]
fn a_step_without_gpus_hears_nothing() {
    let host = nps4().host(BindMode::Closest);
    let mut none = task(0, 1, "0-255", "");
    none.own.gpus = None;
    none.step.gpus = None;
    let aside = decide(&host, &closest(), &none).unwrap_err();
    assert_eq!(
        (aside.to_string().as_str(), aside.quiet),
        ("none: no GPUs", true)
    );
}

proptest! {
    // Each case writes a tree of files.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever the affinity and the GPUs: what is bound is a part of what is allowed, and not nothing.
    #[test]
    fn bound_cpus_are_some_of_the_allowed_ones(
        allowed in prop::collection::btree_set(0u32..16, 1..16),
        nodes in prop::collection::vec(-1i32..4, 1..5),
        tasks in 1u32..6,
    ) {
        let machine = nodes.iter().fold(Machine::new(4, 2, 2, 2), |machine, node| machine.gpu(*node));
        let allowed: CpuSet = allowed.into_iter().collect();
        let all: Vec<u32> = (0..u32::try_from(nodes.len()).unwrap()).collect();
        for mode in [BindMode::Closest, BindMode::Socket] {
            let host = machine.host(mode);
            for id in 0..tasks {
                let task = task(id, tasks, &allowed.to_string(), &list(&all));
                if let Ok(bound) = decide(&host, &settings(mode, MemoryPolicy::Off), &task) {
                    prop_assert!(!bound.cpus.is_empty());
                    prop_assert!(bound.cpus.is_subset(&allowed));
                    prop_assert!(!bound.gpus.is_empty());
                }
            }
        }
    }
}
