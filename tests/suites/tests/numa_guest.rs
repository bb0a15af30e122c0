//! `spank_sgpu_bind`'s decisions and system calls on a kernel with four NUMA nodes: a guest of QEMU, without
//! virtualisation by the processor, with GPUs' places taken by other PCI devices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use suites::initramfs::Archive;

const GUEST: &str = env!("CARGO_BIN_EXE_numa-guest");

/// Node n has CPUs 4n to 4n + 3: two cores of two threads each, 4n and 4n + 1 the first. Devices 0x21, 0x41, 0x61 and 0x81 are on nodes 3, 1, 2 and 0; of the device
/// below pcie.0 the firmware tells no node.
const PLACES: [u32; 4] = [3, 1, 2, 0];

/// Eight GPUs, two at each of the places, as on a board with several nodes a socket.
const EIGHT: &str = "0000:21:00.0,0000:41:00.0,0000:61:00.0,0000:81:00.0,\
                     0000:21:00.0,0000:41:00.0,0000:61:00.0,0000:81:00.0";

const CASES: [(&str, &str); 12] = [
    // name, then mode|memory|task|tasks|CPUs granted|GPUs
    ("closest", "closest|local|0|1|0-15|0000:21:00.0"),
    ("preferred", "closest|preferred|0|1|0-15|0000:41:00.0"),
    ("bind", "node|bind|0|1|0-15|0000:61:00.0"),
    ("two", "closest|bind|0|1|0-15|0000:21:00.0,0000:41:00.0"),
    (
        "two preferred",
        "closest|preferred|0|1|0-15|0000:21:00.0,0000:41:00.0",
    ),
    ("first half", "closest|bind|0|2|0-15|0000:61:00.0"),
    ("second half", "closest|bind|1|2|0-15|0000:61:00.0"),
    (
        "second task",
        "closest|preferred|1|4|0-15|0000:21:00.0,0000:41:00.0,0000:61:00.0,0000:81:00.0",
    ),
    ("far", "closest|bind|0|1|0-3|0000:21:00.0"),
    ("nowhere", "closest|bind|0|1|0-15|0000:00:05.0"),
    ("first of eight", "closest|bind|0|8|0-15|EIGHT"),
    ("fifth of eight", "closest|bind|4|8|0-15|EIGHT"),
];

/// Where `cargo xtask test` puts Debian's cloud kernel.
fn kernel() -> PathBuf {
    let cache = std::env::var_os("SGPU_CACHE").expect("run by `cargo xtask test numa_guest`");
    Path::new(&cache).join("guest/vmlinuz")
}

/// The program, what it is linked with, and its cases.
fn initramfs() -> Vec<u8> {
    let mut archive = Archive::default();
    for folder in ["/proc", "/sys", "/dev"] {
        archive.folder(folder);
    }
    archive.device("/dev/console", 5, 1);
    let linked = Command::new("ldd").arg(GUEST).output().unwrap();
    let linked = String::from_utf8(linked.stdout).unwrap();
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`, or the loader's path alone.
    let libraries = linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for library in libraries {
        archive.file(library, &std::fs::read(library).unwrap());
    }
    archive.file("/init", &std::fs::read(GUEST).unwrap());
    let cases = CASES.map(|(name, case)| format!("{name}|{}\n", case.replace("EIGHT", EIGHT)));
    archive.file("/cases", cases.concat().as_bytes());
    archive.finish()
}

fn qemu(initramfs: &Path) -> Command {
    let mut qemu = Command::new("timeout");
    qemu.args([
        "100",
        "qemu-system-x86_64",
        "-machine",
        "q35,accel=tcg",
        "-cpu",
        "max",
    ])
    .args(["-smp", "16,sockets=4,cores=2,threads=2", "-m", "1024"])
    .args([
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-serial",
        "stdio",
    ]);
    for node in 0..4 {
        let (low, high) = (4 * node, 4 * node + 3);
        qemu.args([
            "-object",
            &format!("memory-backend-ram,id=m{node},size=256M"),
        ])
        .args([
            "-numa",
            &format!("node,nodeid={node},cpus={low}-{high},memdev=m{node}"),
        ]);
    }
    for (node, number) in PLACES.into_iter().zip(1..) {
        let bus = 0x20 * number;
        qemu.args([
            "-device",
            &format!("pxb-pcie,id=pxb{number},bus=pcie.0,bus_nr={bus},numa_node={node}"),
        ])
        .args([
            "-device",
            &format!("pcie-root-port,id=port{number},bus=pxb{number},chassis={number}"),
        ])
        .args(["-device", &format!("virtio-rng-pci,bus=port{number}")]);
    }
    qemu.args(["-device", "virtio-rng-pci,bus=pcie.0,addr=5"])
        .arg("-kernel")
        .arg(kernel())
        .arg("-initrd")
        .arg(initramfs)
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .stdin(Stdio::null());
    qemu
}

#[test]
fn cpus_and_memory_are_those_of_the_gpus_nodes() {
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("skipped: the guest is an x86-64 machine");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("initramfs");
    std::fs::write(&image, initramfs()).unwrap();
    let said = qemu(&image).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    let why = String::from_utf8_lossy(&said.stderr);
    assert!(text.contains("all cases ran"), "{text}\n{why}");
    // report, Cpus_allowed_list, numa_maps
    let told: BTreeMap<&str, Vec<&str>> = text
        .lines()
        .filter_map(|line| line.trim_end().split_once('|'))
        .map(|(name, rest)| (name, rest.split('|').collect()))
        .collect();
    // 8 MiB are 2048 pages.
    for (name, report, cpus, memory) in [
        (
            "closest",
            "closest gpus=0 cpus=12-15 mem=local",
            "12-15",
            "default N3=2048",
        ),
        (
            "preferred",
            "closest gpus=0 cpus=4-7 mem=preferred:1",
            "4-7",
            "prefer:1 N1=2048",
        ),
        (
            "bind",
            "node gpus=0 cpus=8-11 mem=bind:2",
            "8-11",
            "bind:2 N2=2048",
        ),
        (
            "first half",
            "closest gpus=0 cpus=8-9 mem=bind:2",
            "8-9",
            "bind:2 N2=2048",
        ),
        (
            "second half",
            "closest gpus=0 cpus=10-11 mem=bind:2",
            "10-11",
            "bind:2 N2=2048",
        ),
        (
            "second task",
            "closest gpus=1 cpus=4-7 mem=preferred:1",
            "4-7",
            "prefer:1 N1=2048",
        ),
        // The threads of a core stay together.
        (
            "first of eight",
            "closest gpus=0 cpus=12-13 mem=bind:3",
            "12-13",
            "bind:3 N3=2048",
        ),
        (
            "fifth of eight",
            "closest gpus=4 cpus=14-15 mem=bind:3",
            "14-15",
            "bind:3 N3=2048",
        ),
        (
            "far",
            "none: no CPU of 0-3 is near GPU 0 (CPUs 12-15)",
            "0-3",
            "default N0=2048",
        ),
    ] {
        assert_eq!(told[name], [report, cpus, memory], "{name}: {text}");
    }
    // Which of two nodes is the kernel's choice.
    for (name, memory, policy) in [
        ("two", "bind:1,3", "bind:1,3 N"),
        ("two preferred", "preferred:1,3", "prefer N"),
    ] {
        let two = &told[name];
        let report = format!("closest gpus=0,1 cpus=4-7,12-15 mem={memory}");
        assert_eq!(two[..2], [report.as_str(), "4-7,12-15"], "{name}: {text}");
        assert!(two[2].starts_with(policy), "{two:?}");
        assert!(
            !two[2].contains("N0=") && !two[2].contains("N2="),
            "{two:?}"
        );
    }
    let nowhere = &told["nowhere"];
    assert_eq!(
        nowhere[..2],
        [
            "none: the kernel knows no NUMA node of GPU 0 (0000:00:05.0)",
            "0-15"
        ]
    );
    assert!(nowhere[2].starts_with("default "), "{nowhere:?}");
}
