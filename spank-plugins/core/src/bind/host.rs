//! What is known of the node: its GPUs, the CPUs and memory near each, its cores, its RDMA devices.

use std::collections::BTreeSet;

use gpu::index_map::{IndexEntry, IndexMap};
use gpu::sysfs::{self, PciProximity, Sysfs};
use gpu::{CpuSet, PciAddress};
use sgpu_config::BindMode;

use super::share::Cores;

/// The node, as it is read once for a step.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Its GPUs.
    pub map: IndexMap,
    /// Where each GPU of the map is, at the same places; else why that is not known.
    places: Vec<Result<Place, String>>,
    /// The cores of the CPUs near GPUs.
    pub cores: Cores,
}

/// Where a GPU is, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// CPUs near it.
    pub cpus: CpuSet,
    /// NUMA nodes.
    pub nodes: CpuSet,
    /// RDMA devices nearest to it.
    network: Vec<String>,
}

impl Host {
    /// Reads it. `network`: whether RDMA devices are looked for.
    #[must_use]
    pub fn read(map: IndexMap, sysfs: &Sysfs, mode: BindMode, network: bool) -> Self {
        let rdma = if network {
            sysfs.rdma_devices()
        } else {
            Vec::new()
        };
        let places: Vec<_> = map
            .entries
            .iter()
            .map(|gpu| place(gpu, sysfs, mode, &rdma))
            .collect();
        let near = places.iter().flatten();
        let near = near.fold(CpuSet::new(), |sum, place| sum.union(&place.cpus));
        let mut left = near;
        let mut cores = Vec::new();
        while let Some(cpu) = left.first() {
            let only = CpuSet::from_range(cpu, cpu);
            let core = sysfs.core_cpus(cpu).unwrap_or_else(|| only.clone());
            left = left.difference(&core).difference(&only);
            cores.push(core);
        }
        Self {
            map,
            places,
            cores: Cores::new(cores),
        }
    }

    /// Where GPUs are, taken together.
    ///
    /// # Errors
    /// Of one of them it is not known.
    pub fn near(&self, gpus: &[u32]) -> Result<Place, String> {
        let mut sum = Place::default();
        for gpu in gpus {
            let place = self
                .map
                .entries
                .iter()
                .zip(&self.places)
                .find(|(entry, _)| entry.index == *gpu)
                .map_or_else(
                    || Err(format!("GPU {gpu} is not among the node's known GPUs")),
                    |(_, place)| place.clone(),
                )?;
            sum.cpus = sum.cpus.union(&place.cpus);
            sum.nodes = sum.nodes.union(&place.nodes);
        }
        Ok(sum)
    }

    /// The RDMA devices that are nearest to GPUs, each once.
    #[must_use]
    pub fn network(&self, gpus: &[u32]) -> Vec<String> {
        let entries = self.map.entries.iter().zip(&self.places);
        let places = entries.filter(|(entry, _)| gpus.contains(&entry.index));
        let names: BTreeSet<&String> = places
            .filter_map(|(_, place)| place.as_ref().ok())
            .flat_map(|place| &place.network)
            .collect();
        names.into_iter().cloned().collect()
    }
}

fn place(
    gpu: &IndexEntry,
    sysfs: &Sysfs,
    mode: BindMode,
    rdma: &[(String, PciAddress)],
) -> Result<Place, String> {
    let index = gpu.index;
    // A MIG device has the address of the GPU that it is a part of.
    let address = gpu
        .pci
        .ok_or_else(|| format!("the PCI address of GPU {index} is not known"))?;
    let node = sysfs
        .numa_node(&address)
        .ok_or_else(|| format!("the kernel knows no NUMA node of GPU {index} ({address})"))?;
    let cpus = match mode {
        BindMode::Closest | BindMode::Off => sysfs.local_cpulist(&address),
        BindMode::Node => sysfs.node_cpus(node),
        BindMode::Socket => sysfs
            .local_cpulist(&address)
            .and_then(|near| sysfs.package_cpus(near.first()?)),
    };
    let cpus = cpus
        .filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| format!("the kernel names no CPU near GPU {index} ({address})"))?;
    Ok(Place {
        cpus,
        nodes: CpuSet::from_range(node, node),
        network: nearest(&address, node, sysfs, rdma),
    })
}

/// The nearest of the devices, all of those that are equally near.
fn nearest(
    gpu: &PciAddress,
    node: u32,
    sysfs: &Sysfs,
    rdma: &[(String, PciAddress)],
) -> Vec<String> {
    let Ok(way) = sysfs.pci_path(gpu) else {
        return Vec::new();
    };
    let far: Vec<(PciProximity, &String)> = rdma
        .iter()
        .filter_map(|(name, address)| {
            let other = sysfs.pci_path(address).ok()?;
            let far = sysfs::proximity(&way, &other, Some(node), sysfs.numa_node(address));
            Some((far, name))
        })
        .collect();
    let least = far.iter().map(|(far, _)| *far).min();
    far.iter()
        .filter(|(far, _)| Some(*far) == least)
        .map(|(_, name)| (*name).clone())
        .collect()
}
