//! The trees for /sys/bus/pci, /proc/driver and /dev.

use std::path::{Path, PathBuf};

use fake_nvml::fixture::{device_nodes, write_proc_driver, write_sysfs};
use fake_nvml::{Scenario, board};

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn sysfs_of_an_h100_board() {
    let folder = tempfile::tempdir().unwrap();
    write_sysfs(&Scenario::board("8xh100-sxm5"), folder.path()).unwrap();
    let devices = folder.path().join("devices");
    let target = std::fs::read_link(devices.join("0000:18:00.0")).unwrap();
    let wanted = "../tree/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";
    assert_eq!(target, Path::new(wanted));
    let gpu = devices.join("0000:db:00.0");
    assert_eq!(read(gpu.join("vendor")), "0x10de\n");
    assert_eq!(read(gpu.join("device")), "0x2330\n");
    assert_eq!(read(gpu.join("class")), "0x030200\n");
    assert_eq!(read(gpu.join("numa_node")), "1\n");
    assert_eq!(read(gpu.join("local_cpulist")), "64-127\n");
    assert_eq!(
        read(gpu.join("local_cpus")),
        "ffffffff,ffffffff,00000000,00000000\n"
    );
    assert_eq!(read(gpu.join("current_link_speed")), "32.0 GT/s PCIe\n");
    assert_eq!(read(gpu.join("max_link_width")), "16\n");
    // GPUs, three bridges each, four NVSwitches.
    assert_eq!(std::fs::read_dir(&devices).unwrap().count(), 8 + 24 + 4);
    // A second write over the first is no trouble.
    write_sysfs(&Scenario::board("8xh100-sxm5"), folder.path()).unwrap();
}

#[test]
fn a_shared_switch_is_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    write_sysfs(&Scenario::board("8xa100-sxm4-80gb"), folder.path()).unwrap();
    let switch = folder
        .path()
        .join("tree/pci0000:01/0000:01:01.0/0000:02:00.0");
    assert!(switch.join("0000:03:00.0/0000:07:00.0/vendor").exists());
    assert!(switch.join("0000:03:04.0/0000:0f:00.0/vendor").exists());
    assert_eq!(read(switch.join("class")), "0x060400\n");
}

#[test]
fn an_absent_device_is_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut scenario = Scenario::board("4xt4");
    scenario.device_mut(1).absent = Some(true);
    write_sysfs(&scenario, folder.path()).unwrap();
    write_proc_driver(&scenario, folder.path()).unwrap();
    assert!(!folder.path().join("devices/0000:5e:00.0").exists());
    assert!(!folder.path().join("nvidia/gpus/0000:5e:00.0").exists());
    let nodes = device_nodes(&scenario).unwrap();
    let minors = nodes
        .iter()
        .filter(|node| node.major == 195 && node.minor < 254);
    assert_eq!(minors.map(|node| node.minor).collect::<Vec<_>>(), [0, 2, 3]);
}

#[test]
fn proc_driver() {
    let folder = tempfile::tempdir().unwrap();
    let mut scenario = Scenario::board("a100-mig-mixed");
    scenario.device_mut(1).minor = Some(5);
    write_proc_driver(&scenario, folder.path()).unwrap();
    let nvidia = folder.path().join("nvidia");
    assert!(read(nvidia.join("version")).contains("Kernel Module  570.124.06"));
    let information = read(nvidia.join("gpus/0000:47:00.0/information"));
    assert!(
        information.contains("Device Minor: \t 5\n"),
        "{information}"
    );
    assert!(
        information.contains("Bus Location: \t 0000:47:00.0\n"),
        "{information}"
    );
    assert!(
        information.starts_with("Model: \t\t NVIDIA A100-SXM4-80GB\n"),
        "{information}"
    );
    let minors = read(folder.path().join("nvidia-caps/mig-minors"));
    let has = |line: &str| minors.lines().any(|other| other == line);
    assert!(has("config 1") && has("monitor 2"));
    assert!(has("gpu0/gi1/access 12") && has("gpu0/gi1/ci0/access 13"));
    assert!(has("gpu0/gi0/access 3") && has("gpu1/gi0/access 138"));
    let access = read(nvidia.join("capabilities/gpu0/mig/gi2/access"));
    assert!(access.starts_with("DeviceFileMinor: 21\n"), "{access}");
}

#[test]
fn nodes_of_mig_devices() {
    let nodes = device_nodes(&Scenario::board("a100-mig-mixed")).unwrap();
    let has = |path: &str, major: u32, minor: u32| {
        nodes
            .iter()
            .any(|n| n.path == Path::new(path) && (n.major, n.minor) == (major, minor))
    };
    assert!(has("/dev/nvidiactl", 195, 255));
    assert!(has("/dev/nvidia1", 195, 1));
    // GPU instance 2 and its compute instance 0.
    assert!(
        nodes
            .iter()
            .any(|n| n.path == Path::new("/dev/nvidia-caps/nvidia-cap21"))
    );
    assert!(
        nodes
            .iter()
            .any(|n| n.path == Path::new("/dev/nvidia-caps/nvidia-cap22"))
    );
    assert!(nodes.iter().any(|n| n.path == Path::new("/dev/nvidia-uvm")));
}

#[test]
fn every_board_has_its_trees() {
    for name in board::names() {
        let folder = tempfile::tempdir().unwrap();
        let scenario = Scenario::board(name);
        write_sysfs(&scenario, folder.path()).unwrap();
        write_proc_driver(&scenario, folder.path()).unwrap();
        for gpu in &scenario.resolve().unwrap().gpus {
            let device = folder.path().join("devices").join(gpu.pci.to_string());
            let node = gpu.numa_node.unwrap();
            assert_eq!(
                read(device.join("numa_node")),
                format!("{node}\n"),
                "{name}"
            );
        }
    }
}
