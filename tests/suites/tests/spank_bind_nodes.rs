//! `spank_sgpu_bind` on nodes of several kinds: without our map, with RDMA devices, where memory policies are
//! refused, where the firmware tells nothing.

use std::path::Path;

use fake_nvml::Scenario;
use fake_nvml::scenario::Device;
use harness::{Builder, Cluster, Output, Release};
use suites::{c_plugin, gpus, on_each_spank_release, scenarios};

const PLUGSTACK: &str = "required /opt/sgpu/plugins/spank_sgpu_bind.so\n";

fn node(release: Release, scenario: Scenario, gpus: u32) -> Builder {
    let board = Cluster::builder(release).scenario(scenario);
    gpus::of_the_board(board, release, gpus).etc_slurm("plugstack.conf", PLUGSTACK)
}

fn srun(cluster: &Cluster, words: &[&str], script: &str) -> Output {
    let mut all = words.to_vec();
    all.extend(["sh", "-c", script]);
    cluster.run("srun", &all).unwrap().ok().unwrap()
}

/// What tasks find in SGPU_BIND, by their numbers.
fn reports(cluster: &Cluster, words: &[&str]) -> Vec<String> {
    let said = srun(cluster, words, "echo \"$SLURM_PROCID $SGPU_BIND\"");
    let mut lines: Vec<String> = said.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Whether this machine has no CPU of the boards' second node.
fn is_small() -> bool {
    let cpus = std::thread::available_parallelism().unwrap();
    cpus.get() <= 64
}

/// Eight H100 whose minor numbers run against their order on the bus: `/dev/nvidia0` is on node 1, which this
/// machine has no CPU of, `/dev/nvidia7` on node 0.
fn against_the_bus() -> Scenario {
    let mut scenario = Scenario::board("8xh100-sxm5");
    for index in 0..8 {
        let minor = u32::try_from(7 - index).unwrap();
        scenario.device.push(Device {
            index: Some(index),
            minor: Some(minor),
            ..Device::default()
        });
    }
    scenario
}

/// No gpu/nvml of ours, so no map: Slurm's GPU N is /dev/nvidiaN, and the driver says where that is.
#[test]
fn without_a_map_gpus_go_by_their_minor_numbers() {
    on_each_spank_release(|release| {
        let cluster = node(release, against_the_bus(), 8)
            .gres_conf("AutoDetect=off\nName=gpu File=/dev/nvidia[0-7]")
            .start()
            .unwrap();
        let map = cluster.path(cluster.node(1), "/run/sgpu/gpus").unwrap();
        assert!(!map.exists(), "a map is published");
        let told = reports(&cluster, &["-n8", "--gres=gpu:8", "--gpu-numa-bind"]);
        for (task, told) in told.iter().enumerate() {
            let far = task < 4 && is_small();
            let expected = if far {
                format!("{task} none: no CPU of ")
            } else {
                format!("{task} closest gpus={task} cpus=")
            };
            assert!(told.starts_with(&expected), "{told}");
            let why = format!(" is near GPU {task} (CPUs 64-127)");
            assert_eq!(told.ends_with(&why), far, "{told}");
        }
        assert!(!map.exists(), "a step has published a map");
        cluster.stop().unwrap();
    });
}

#[test]
fn a_gpu_whose_node_the_firmware_does_not_tell_binds_nothing() {
    on_each_spank_release(|release| {
        let nowhere = Device {
            numa_node: Some(-1),
            ..Device::default()
        };
        let cluster = node(release, scenarios::every_gpu("4xt4", 4, &nowhere), 4)
            .start()
            .unwrap();
        let said = srun(
            &cluster,
            &["--gres=gpu:1", "--gpu-numa-bind"],
            "echo $SGPU_BIND",
        );
        let told = said.stdout.trim_end();
        assert!(
            told.starts_with("none: the kernel knows no NUMA node of GPU 0 ("),
            "{said}"
        );
        assert_eq!(said.stderr.matches(told).count(), 1, "{said}");
        cluster.stop().unwrap();
    });
}

/// As Docker's filter of system calls does it.
const REFUSE: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <slurm/spank.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
SPANK_PLUGIN(refuse, 1);
int slurm_spank_task_init(spank_t sp, int ac, char **av) {
    struct sock_filter words[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_mempolicy, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(words) / sizeof(words[0]), words };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        slurm_error("refuse: %m");
    return 0;
}
"#;

#[test]
fn where_memory_policies_are_refused_the_cpus_stay_bound() {
    on_each_spank_release(|release| {
        // CPU 0 alone, a socket to Slurm, so that a bound task shows it.
        let cluster = node(release, scenarios::all_near("4xt4", 4, "0"), 4)
            .cpus_hwloc("pack:2 numa:1 core:1 pu:1")
            .start()
            .unwrap();
        c_plugin::install(&cluster, release, "refuse", REFUSE);
        // The report, the CPUs, the policies of the task's memory.
        let tell = "echo \"$SGPU_BIND|$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)|\
            $(cut -d' ' -f2 /proc/self/numa_maps 2>/dev/null | sort -u | tr '\\n' ' ')\"";
        let words = ["--gres=gpu:1", "--gpu-numa-bind", "--gpu-numa-mem=bind"];
        let has_policies = Path::new("/proc/self/numa_maps").exists();
        let granted = srun(&cluster, &words, tell);
        if has_policies {
            let expected = "closest gpus=0 cpus=0 mem=bind:0|0|bind:0 \n";
            assert_eq!(granted.stdout, expected, "{granted}");
        }
        cluster
            .write_etc(
                "plugstack.conf",
                &format!("required /opt/sgpu/refuse.so\n{PLUGSTACK}"),
            )
            .unwrap();
        let refused = srun(&cluster, &words, tell);
        let policy = if has_policies { "default " } else { "" };
        let expected = format!("closest gpus=0 cpus=0 mem=refused|0|{policy}\n");
        assert_eq!(refused.stdout, expected, "{refused}");
        // Nobody needs to do anything.
        assert!(!refused.stderr.contains("sgpu"), "{refused}");
        cluster.stop().unwrap();
    });
}

/// RDMA devices as the kernel shows them: mlx5_0 behind GPU 0's switch and mlx5_1 behind GPU 1's; mlx5_2, whose
/// port is down, beside GPU 0 too; mlx5_3 behind GPU 4's switch, on the other node.
const RDMA: &str = r#"
set -e
mount -t tmpfs tmpfs /sys/class
device() { # name, port's state, way from the host bridge
    folder=/sys/bus/pci/tree/$3
    address=${3##*/}
    mkdir -p $folder /sys/class/infiniband/$1/ports/1
    echo $4 > $folder/numa_node
    echo "$2" > /sys/class/infiniband/$1/ports/1/state
    ln -s ../tree/$3 /sys/bus/pci/devices/$address
    ln -s $folder /sys/class/infiniband/$1/device
}
device mlx5_0 '4: ACTIVE' pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0 0
device mlx5_1 '4: ACTIVE' pci0000:27/0000:27:01.0/0000:28:00.0/0000:29:01.0/0000:2b:00.0 0
device mlx5_2 '1: DOWN' pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.1 0
device mlx5_3 '4: ACTIVE' pci0000:97/0000:97:01.0/0000:98:00.0/0000:99:01.0/0000:9b:00.0 1
"#;

#[test]
fn tasks_are_told_the_rdma_devices_nearest_to_their_gpus() {
    on_each_spank_release(|release| {
        // So that tasks of GPUs of both nodes are bound here.
        let cluster = node(release, scenarios::all_near("8xh100-sxm5", 8, "0-127"), 8)
            .etc_slurm("sgpu.toml", "[bind]\nmode = \"closest\"\nnetwork = true\n")
            .start()
            .unwrap();
        let make = cluster.command("sh").args(["-c", RDMA]).on(cluster.node(1));
        make.run().unwrap().ok().unwrap();
        let tell = "echo \"$SLURM_PROCID $SGPU_NIC $NCCL_IB_HCA $UCX_NET_DEVICES\"";
        let told = |words: &[&str]| {
            let said = srun(&cluster, words, tell);
            let mut lines: Vec<String> = said.stdout.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let eight = told(&["-n8", "--gres=gpu:8"]);
        let both = "mlx5_0,mlx5_1 =mlx5_0,mlx5_1 mlx5_0:1,mlx5_1:1";
        let other = "mlx5_3 =mlx5_3 mlx5_3:1";
        let nearest = [
            "mlx5_0 =mlx5_0 mlx5_0:1",
            "mlx5_1 =mlx5_1 mlx5_1:1",
            // No device is behind their switches: those of their node.
            both,
            both,
            other,
            other,
            other,
            other,
        ];
        for (task, (told, nearest)) in eight.iter().zip(nearest).enumerate() {
            assert_eq!(*told, format!("{task} {nearest}"));
        }
        // A task of several GPUs has those of all; what the user has set stays.
        let two = told(&[
            "-n1",
            "--gres=gpu:2",
            "--export=ALL,NCCL_IB_HCA=mlx5_9,SGPU_NIC=other",
        ]);
        assert_eq!(two, ["0 mlx5_0,mlx5_1 mlx5_9 mlx5_0:1,mlx5_1:1"]);
        // Nobody is told who does not ask for binding.
        let off = told(&["-n1", "--gres=gpu:2", "--gpu-numa-bind=off"]);
        assert_eq!(off, ["0   "]);
        let unmount = cluster
            .command("umount")
            .args(["/sys/class"])
            .on(cluster.node(1));
        unmount.run().unwrap().ok().unwrap();
        cluster.stop().unwrap();
    });
}
