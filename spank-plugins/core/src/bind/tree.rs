//! Machines as sysfs shows them, for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use gpu::CpuSet;
use gpu::index_map::{IndexEntry, IndexMap};
use gpu::sysfs::Sysfs;
use sgpu_config::BindMode;

use super::Host;

/// A machine: `nodes` NUMA nodes of `cores` cores each, `sockets` sockets; with `threads` = 2, CPU n and
/// n + nodes * cores share a core.
pub(super) struct Machine {
    root: tempfile::TempDir,
    pub(super) map: IndexMap,
}

impl Machine {
    pub(super) fn new(nodes: u32, cores: u32, threads: u32, sockets: u32) -> Self {
        let root = tempfile::tempdir().unwrap();
        let system = root.path().join("devices/system");
        let of_node = |node: u32| -> CpuSet {
            let cpus = (0..cores).flat_map(|core| {
                (0..threads).map(move |thread| node * cores + core + thread * nodes * cores)
            });
            cpus.collect()
        };
        let per_socket = nodes / sockets;
        for node in 0..nodes {
            let socket = node / per_socket;
            let package = (socket * per_socket..(socket + 1) * per_socket)
                .fold(CpuSet::new(), |sum, node| sum.union(&of_node(node)));
            write(
                &system.join(format!("node/node{node}/cpulist")),
                &of_node(node).to_string(),
            );
            for cpu in of_node(node).iter() {
                let first = cpu % (nodes * cores);
                let core: CpuSet = (0..threads)
                    .map(|thread| first + thread * nodes * cores)
                    .collect();
                let topology = system.join(format!("cpu/cpu{cpu}/topology"));
                write(&topology.join("core_cpus_list"), &core.to_string());
                write(&topology.join("package_cpus_list"), &package.to_string());
            }
        }
        Self {
            root,
            map: IndexMap::default(),
        }
    }

    /// A PCI device below a host bridge of its own node: bus `0x10 + n`.
    fn pci(&self, bridge: &str, address: &str, node: i32) {
        let way = format!("devices/pci0000:{bridge}/0000:{bridge}:01.0/{address}");
        let device = self.root.path().join(&way);
        let cpus = u32::try_from(node).ok().map(|node| {
            let list = format!("devices/system/node/node{node}/cpulist");
            fs::read_to_string(self.root.path().join(list)).unwrap()
        });
        write(&device.join("numa_node"), &node.to_string());
        write(&device.join("local_cpulist"), &cpus.unwrap_or_default());
        let bus = self.root.path().join("bus/pci/devices");
        fs::create_dir_all(&bus).unwrap();
        symlink(&device, bus.join(address)).unwrap();
    }

    /// The next GPU, on a node (-1: the firmware does not say).
    pub(super) fn gpu(mut self, node: i32) -> Self {
        let index = u32::try_from(self.map.entries.len()).unwrap();
        let bridge = format!("{:02x}", 0x10 + index);
        let address = format!("0000:{:02x}:00.0", 0x80 + index);
        self.pci(&bridge, &address, node);
        self.map.entries.push(IndexEntry {
            index,
            files: vec![format!("/dev/nvidia{index}")],
            minor: Some(index),
            pci: address.parse().ok(),
            uuid: Some(format!("GPU-{index}")),
            mig: None,
        });
        self
    }

    /// An RDMA device beside a GPU, below the same port.
    pub(super) fn rdma(self, name: &str, gpu: u32, node: i32) -> Self {
        let bridge = format!("{:02x}", 0x10 + gpu);
        let address = format!("0000:{:02x}:00.1", 0x80 + gpu);
        self.pci(&bridge, &address, node);
        let class = self.root.path().join("class/infiniband").join(name);
        fs::create_dir_all(&class).unwrap();
        let device = self.root.path().join("bus/pci/devices").join(address);
        symlink(device, class.join("device")).unwrap();
        self
    }

    pub(super) fn host(&self, mode: BindMode) -> Host {
        Host::read(self.map.clone(), &Sysfs::new(self.root.path()), mode, true)
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}
