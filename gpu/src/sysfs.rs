//! What the kernel knows about a device's place: NUMA node, CPUs, the way over PCIe.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cpuset::CpuSet;
use crate::pci::PciAddress;

/// A sysfs tree; the root is an argument so that a recorded tree can stand in.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

/// The system's own `/sys`.
impl Default for Sysfs {
    fn default() -> Self {
        Self::new("/sys")
    }
}

impl Sysfs {
    /// A tree with the given root.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// NUMA node of a device; `None` when the kernel knows none (-1) or the device is absent.
    #[must_use]
    pub fn numa_node(&self, device: &PciAddress) -> Option<u32> {
        fs::read_to_string(self.device(device).join("numa_node"))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// CPUs near a device; `None` when it is absent or the list cannot be read.
    #[must_use]
    pub fn local_cpulist(&self, device: &PciAddress) -> Option<CpuSet> {
        cpu_list(&self.device(device).join("local_cpulist"))
    }

    /// CPUs that are online; `None` when the kernel does not say.
    #[must_use]
    pub fn online_cpus(&self) -> Option<CpuSet> {
        cpu_list(&self.root.join("devices/system/cpu/online"))
    }

    /// CPUs of a NUMA node.
    #[must_use]
    pub fn node_cpus(&self, node: u32) -> Option<CpuSet> {
        cpu_list(
            &self
                .root
                .join(format!("devices/system/node/node{node}/cpulist")),
        )
    }

    /// CPUs that share a core with a CPU, itself among them.
    #[must_use]
    pub fn core_cpus(&self, cpu: u32) -> Option<CpuSet> {
        // The newer name, then the one that older kernels have alone.
        self.topology(cpu, "core_cpus_list")
            .or_else(|| self.topology(cpu, "thread_siblings_list"))
    }

    /// CPUs that share a socket with a CPU, itself among them.
    #[must_use]
    pub fn package_cpus(&self, cpu: u32) -> Option<CpuSet> {
        self.topology(cpu, "package_cpus_list")
            .or_else(|| self.topology(cpu, "core_siblings_list"))
    }

    fn topology(&self, cpu: u32, file: &str) -> Option<CpuSet> {
        cpu_list(
            &self
                .root
                .join(format!("devices/system/cpu/cpu{cpu}/topology/{file}")),
        )
        .filter(|cpus| cpus.contains(cpu))
    }

    /// RDMA devices with their PCI addresses, by name: `mlx5_0`. Those whose ports are all down are left out.
    #[must_use]
    pub fn rdma_devices(&self) -> Vec<(String, PciAddress)> {
        let class = self.root.join("class/infiniband");
        let mut found: Vec<_> = fs::read_dir(&class)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let home = class.join(&name);
                let device = fs::canonicalize(home.join("device")).ok()?;
                let address = device.file_name()?.to_str()?.parse().ok()?;
                has_active_port(&home).then_some((name, address))
            })
            .collect();
        found.sort();
        found
    }

    /// PCI class of a device, as 0x030200 for a 3D controller.
    #[must_use]
    pub fn pci_class(&self, device: &PciAddress) -> Option<u32> {
        self.hex(device, "class")
    }

    /// PCI vendor of a device, as 0x10de for NVIDIA.
    #[must_use]
    pub fn pci_vendor(&self, device: &PciAddress) -> Option<u32> {
        self.hex(device, "vendor")
    }

    fn hex(&self, device: &PciAddress, file: &str) -> Option<u32> {
        let text = fs::read_to_string(self.device(device).join(file)).ok()?;
        u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    }

    /// The way from the host bridge to a device.
    ///
    /// # Errors
    /// The device is absent, or its link leads to no PCI tree.
    pub fn pci_path(&self, device: &PciAddress) -> io::Result<PciPath> {
        let real = fs::canonicalize(self.device(device))?;
        PciPath::from_sysfs(&real).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: no PCI device path", real.display()),
            )
        })
    }

    fn device(&self, device: &PciAddress) -> PathBuf {
        self.root.join("bus/pci/devices").join(device.to_string())
    }
}

/// Whether an RDMA device has a port that is up (`4: ACTIVE`), or ports of which nothing is said.
fn has_active_port(home: &Path) -> bool {
    let mut states = fs::read_dir(home.join("ports"))
        .into_iter()
        .flatten()
        .filter_map(|port| fs::read_to_string(port.ok()?.path().join("state")).ok())
        .peekable();
    states.peek().is_none() || states.any(|state| state.starts_with("4:"))
}

fn cpu_list(path: &Path) -> Option<CpuSet> {
    fs::read_to_string(path).ok()?.parse().ok()
}

/// The way from a host bridge to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciPath {
    /// The host bridge, as `pci0000:17`.
    pub root: String,
    /// Ports and bridges from the root port on, the device itself last.
    pub chain: Vec<PciAddress>,
}

impl PciPath {
    /// From a device's canonical sysfs path: the last component that names a host bridge, and the
    /// PCI addresses that follow it. Other components (virtual bridges of some hypervisors) are
    /// passed over.
    #[must_use]
    pub fn from_sysfs(path: &Path) -> Option<Self> {
        let mut root = None;
        let mut chain = Vec::new();
        for part in path.components() {
            let Some(part) = part.as_os_str().to_str() else {
                continue;
            };
            if is_host_bridge(part) {
                root = Some(part.to_owned());
                chain.clear();
            } else if let Ok(address) = part.parse() {
                chain.push(address);
            }
        }
        let root = root?;
        (!chain.is_empty()).then_some(Self { root, chain })
    }
}

/// `pciDDDD:BB`.
fn is_host_bridge(part: &str) -> bool {
    part.strip_prefix("pci")
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(domain, bus)| {
            (4..=8).contains(&domain.len())
                && bus.len() == 2
                && domain
                    .bytes()
                    .chain(bus.bytes())
                    .all(|byte| byte.is_ascii_hexdigit())
        })
}

/// How far apart two PCI devices are, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PciProximity {
    /// PIX: at most one PCIe switch between them.
    SameSwitch,
    /// PXB: several PCIe switches, no host bridge.
    MultipleSwitches,
    /// PHB: through a host bridge.
    SameHostBridge,
    /// NODE: through several host bridges of one NUMA node.
    SameNuma,
    /// SYS: through the link between NUMA nodes.
    System,
}

impl PciProximity {
    /// The word of `nvidia-smi topo`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SameSwitch => "PIX",
            Self::MultipleSwitches => "PXB",
            Self::SameHostBridge => "PHB",
            Self::SameNuma => "NODE",
            Self::System => "SYS",
        }
    }
}

/// How far apart two devices are, from their ways and NUMA nodes. Two host bridges whose nodes
/// are not both known count as [`PciProximity::System`].
#[must_use]
pub fn proximity(
    a: &PciPath,
    b: &PciPath,
    a_node: Option<u32>,
    b_node: Option<u32>,
) -> PciProximity {
    if a.root != b.root {
        return match (a_node, b_node) {
            (Some(a), Some(b)) if a == b => PciProximity::SameNuma,
            _ => PciProximity::System,
        };
    }
    let shared = a
        .chain
        .iter()
        .zip(&b.chain)
        .take_while(|(a, b)| a == b)
        .count();
    if shared == 0 {
        return PciProximity::SameHostBridge;
    }
    // Below a switch's upstream port come a downstream port and the device; a longer way on
    // either side has another switch in it.
    let below = |path: &PciPath| path.chain.len().saturating_sub(shared);
    if below(a) <= 2 && below(b) <= 2 {
        PciProximity::SameSwitch
    } else {
        PciProximity::MultipleSwitches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn path(text: &str) -> PciPath {
        PciPath::from_sysfs(Path::new(text)).unwrap()
    }

    fn address(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    #[test]
    fn ways() {
        let way =
            path("/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:04.0/0000:19:00.0");
        assert_eq!(way.root, "pci0000:16");
        assert_eq!(way.chain.len(), 4);
        assert_eq!(way.chain[3], address("0000:19:00.0"));
        let azure = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500/pci0001:00/0001:00:00.0";
        assert_eq!(path(azure).root, "pci0001:00");
        assert!(PciPath::from_sysfs(Path::new("/sys/devices/virtual/net/lo")).is_none());
        assert!(PciPath::from_sysfs(Path::new("/sys/devices/pci0000:16")).is_none());
        // A domain of e001, as hypervisors make them.
        assert!(is_host_bridge("pcie001:00"));
        for other in ["pci0000:1", "pci:00", "pci_bus", "0000:16", "pci0000:16:00"] {
            assert!(!is_host_bridge(other), "{other}");
        }
    }

    #[test]
    fn five_distances() {
        let base = "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0";
        let gpu = path(&format!("{base}/0000:18:00.0/0000:19:00.0"));
        let same_switch = path(&format!("{base}/0000:18:04.0/0000:1a:00.0"));
        let nested = path(&format!(
            "{base}/0000:18:08.0/0000:1b:00.0/0000:1c:00.0/0000:1d:00.0"
        ));
        let other_port = path("/sys/devices/pci0000:16/0000:16:03.0/0000:20:00.0");
        let other_root = path("/sys/devices/pci0000:64/0000:64:02.0/0000:65:00.0");
        let far = |other: &PciPath, a, b| proximity(&gpu, other, a, b);
        assert_eq!(far(&same_switch, None, None).word(), "PIX");
        assert_eq!(far(&nested, None, None).word(), "PXB");
        assert_eq!(proximity(&nested, &gpu, None, None).word(), "PXB");
        assert_eq!(far(&other_port, None, None).word(), "PHB");
        assert_eq!(far(&other_root, Some(0), Some(0)).word(), "NODE");
        assert_eq!(far(&other_root, Some(0), Some(1)).word(), "SYS");
        assert_eq!(far(&other_root, None, None).word(), "SYS");
        assert!(PciProximity::SameSwitch < PciProximity::System);
    }

    #[test]
    fn reads_a_tree() {
        let root = tempfile::tempdir().unwrap();
        let real = root
            .path()
            .join("devices/pci0000:16/0000:16:02.0/0000:17:00.0");
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("numa_node"), "1\n").unwrap();
        fs::write(real.join("local_cpulist"), "32-63,96-127\n").unwrap();
        fs::write(real.join("class"), "0x030200\n").unwrap();
        let bus = root.path().join("bus/pci/devices");
        fs::create_dir_all(&bus).unwrap();
        symlink(
            "../../../devices/pci0000:16/0000:16:02.0/0000:17:00.0",
            bus.join("0000:17:00.0"),
        )
        .unwrap();
        let cpu = root.path().join("devices/system/cpu");
        fs::create_dir_all(&cpu).unwrap();
        fs::write(cpu.join("online"), "0-127\n").unwrap();

        let sysfs = Sysfs::new(root.path());
        let gpu = address("00000000:17:00.0");
        assert_eq!(sysfs.numa_node(&gpu), Some(1));
        assert_eq!(
            sysfs.local_cpulist(&gpu).unwrap().to_string(),
            "32-63,96-127"
        );
        assert_eq!(sysfs.pci_class(&gpu), Some(0x03_0200));
        assert_eq!(sysfs.online_cpus().unwrap().len(), 128);
        assert_eq!(sysfs.pci_path(&gpu).unwrap().root, "pci0000:16");
        fs::write(real.join("numa_node"), "-1\n").unwrap();
        assert_eq!(sysfs.numa_node(&gpu), None);
        let absent = address("0000:99:00.0");
        assert_eq!(sysfs.numa_node(&absent), None);
        assert!(sysfs.pci_path(&absent).is_err());
    }

    #[test]
    fn cores_and_sockets_by_both_names() {
        let root = tempfile::tempdir().unwrap();
        let topology = |cpu: u32, file: &str, text: &str| {
            let folder = root
                .path()
                .join(format!("devices/system/cpu/cpu{cpu}/topology"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), text).unwrap();
        };
        topology(1, "core_cpus_list", "1,65\n");
        topology(1, "package_cpus_list", "0-31,64-95\n");
        topology(2, "thread_siblings_list", "2,66\n");
        topology(2, "core_siblings_list", "0-31,64-95\n");
        topology(3, "core_cpus_list", "4-5\n");
        let sysfs = Sysfs::new(root.path());
        let text = |cpus: Option<CpuSet>| cpus.map(|cpus| cpus.to_string());
        assert_eq!(text(sysfs.core_cpus(1)).as_deref(), Some("1,65"));
        assert_eq!(text(sysfs.core_cpus(2)).as_deref(), Some("2,66"));
        assert_eq!(text(sysfs.package_cpus(1)).as_deref(), Some("0-31,64-95"));
        assert_eq!(text(sysfs.package_cpus(2)).as_deref(), Some("0-31,64-95"));
        // What does not name the CPU itself is not believed.
        assert_eq!(sysfs.core_cpus(3), None);
        assert_eq!(sysfs.core_cpus(9), None);
    }

    #[test]
    fn rdma_devices_that_are_up() {
        let root = tempfile::tempdir().unwrap();
        for (name, pci, state) in [
            ("mlx5_1", "0000:1b:00.0", Some("4: ACTIVE\n")),
            ("mlx5_0", "0000:1a:00.0", Some("1: DOWN\n")),
            ("efa_0", "0000:1c:00.0", None),
        ] {
            let device = root.path().join("devices/pci0000:16").join(pci);
            let class = root.path().join("class/infiniband").join(name);
            fs::create_dir_all(&device).unwrap();
            fs::create_dir_all(&class).unwrap();
            symlink(&device, class.join("device")).unwrap();
            if let Some(state) = state {
                fs::create_dir_all(class.join("ports/1")).unwrap();
                fs::write(class.join("ports/1/state"), state).unwrap();
            }
        }
        assert_eq!(
            Sysfs::new(root.path()).rdma_devices(),
            [
                ("efa_0".to_owned(), address("0000:1c:00.0")),
                ("mlx5_1".to_owned(), address("0000:1b:00.0")),
            ]
        );
        assert!(Sysfs::new("/nonexistent").rdma_devices().is_empty());
    }
}
