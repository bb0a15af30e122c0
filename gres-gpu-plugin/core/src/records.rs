//! From what is on a node to what Slurm is told of it.

use gpu::cpuset::CpuSet;
use gpu::locality::Locality;
use gpu::model::{Gpu, Inventory, MigInstance, MigState};
use gpu::type_name::{self, MigNaming};

/// One gres of type gpu: a GPU, or a MIG device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// `File=`: the GPU's device file, and for a MIG device those of its capabilities too.
    pub file: String,
    /// `Type=`.
    pub type_name: String,
    /// `Links=`.
    pub links: Option<String>,
    /// By which CUDA knows a MIG device.
    pub unique_id: Option<String>,
    /// The CPUs near it, in the machine's numbers; `None` when any CPU is as good.
    pub cpus: Option<CpuSet>,
    /// Whether it is a MIG device.
    pub is_mig: bool,
}

/// How a release of Slurm describes MIG devices.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MigStyle {
    /// How their types are named.
    pub naming: MigNaming,
    /// Whether they carry `Links`, which mark their order (until 23.02).
    pub links: bool,
}

/// The records of a node, and what its admin must know.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Records {
    /// In the order of NVML's indices, which is that of PCI addresses.
    pub records: Vec<Record>,
    /// Trouble, a sentence each: GPUs that are left out and why.
    pub errors: Vec<String>,
    /// Of interest to the admin, a sentence each.
    pub notes: Vec<String>,
}

/// Makes the records. `links` has one vector per NVML index, as [`gpu::links::inventory_links`]
/// gives them; `locality` tells which CPUs are near a GPU; `configured` is how many GPUs slurm.conf gives
/// the node, if that is known.
pub fn records(
    inventory: &Inventory,
    links: &[Vec<i32>],
    locality: impl Fn(&Gpu) -> Locality,
    style: MigStyle,
    configured: Option<u64>,
) -> Records {
    let mut out = Records::default();
    // Behind each record, the NVML index of its GPU.
    let mut indices = Vec::new();
    for entry in &inventory.gpus {
        match entry {
            Ok(gpu) => {
                add_gpu(&mut out, inventory, gpu, locality(gpu), style);
                indices.resize(out.records.len(), gpu.index);
            }
            Err(fault) => out
                .errors
                .push(format!("{fault}; this GPU is not offered to jobs")),
        }
    }
    let found = u64::try_from(out.records.len()).unwrap_or(u64::MAX);
    match configured {
        Some(configured) if configured < found => out.notes.push(format!(
            "slurm.conf gives this node {configured} GPUs and {found} were found: Links are left out, \
             since slurmctld refuses a node whose Links are more than its GPUs"
        )),
        _ => add_links(&mut out.records, &indices, links, style),
    }
    out
}

fn add_gpu(
    out: &mut Records,
    inventory: &Inventory,
    gpu: &Gpu,
    locality: Locality,
    style: MigStyle,
) {
    let name = format!("GPU {} ({})", gpu.index, gpu.pci);
    out.notes
        .extend(gpu.notes.iter().map(|note| format!("{name}: {note}")));
    let Some(file) = gpu.device_file() else {
        out.errors.push(format!(
            "{name}: NVML knows no minor number, so its device file is unknown; this GPU is not offered \
             to jobs"
        ));
        return;
    };
    if locality.cpus.is_none() {
        let reason = locality.source.reason();
        out.notes
            .push(format!("{name}: no CPU is known to be near it: {reason}"));
    }
    match &gpu.mig {
        MigState::PendingEnable => out
            .notes
            .push(format!("{name}: MIG comes on at its next reset")),
        MigState::PendingDisable(_) => {
            out.notes
                .push(format!("{name}: MIG goes off at its next reset"));
        }
        MigState::Unsupported | MigState::Disabled | MigState::Enabled(_) => {}
    }
    let Some(instances) = gpu.mig.instances() else {
        out.records.push(Record {
            file,
            type_name: type_name::gres_type(&gpu.name),
            links: None,
            unique_id: None,
            cpus: locality.cpus,
            is_mig: false,
        });
        return;
    };
    if instances.is_empty() {
        out.errors.push(format!(
            "{name}: MIG is on but there is no MIG device; this GPU is not offered to jobs: create \
             instances (nvidia-smi mig -cgi … -C) or turn MIG off (nvidia-smi -i {} -mig 0), then restart \
             slurmd",
            gpu.pci
        ));
    }
    for instance in instances {
        match mig_record(inventory, gpu, instance, style) {
            Some(record) => {
                out.records.push(Record { cpus: locality.cpus.clone(), ..record });
            }
            None => out.errors.push(format!(
                "{name}: the device files of MIG device {} (gpu instance {}, compute instance {}) are not \
                 in /proc/driver/nvidia-caps/mig-minors; it is not offered to jobs",
                instance.index, instance.gpu_instance_id, instance.compute_instance_id
            )),
        }
    }
}

/// The vectors count by the places of the GPUs that are offered, each GPU one, in MIG devices or whole:
/// slurmctld refuses a node with a vector that is longer than it has GPUs. The place of the -1 also tells
/// Slurm the order of the records, so a MIG device that carries links counts by the devices of its GPU,
/// as with Slurm's own driver.
fn add_links(records: &mut [Record], indices: &[u32], links: &[Vec<i32>], style: MigStyle) {
    let mut gpus = indices.to_vec();
    gpus.dedup();
    let mut place_in_gpu = 0_usize;
    let mut before = None;
    for (record, index) in records.iter_mut().zip(indices) {
        place_in_gpu = if before == Some(index) {
            place_in_gpu.saturating_add(1)
        } else {
            0
        };
        before = Some(index);
        if !record.is_mig {
            let own = usize::try_from(*index)
                .ok()
                .and_then(|index| links.get(index));
            let to = |other: &u32| {
                if other == index {
                    return gpu::links::SELF;
                }
                own.zip(usize::try_from(*other).ok())
                    .and_then(|(vector, other)| vector.get(other).copied())
                    .unwrap_or(0)
            };
            record.links = Some(gpu::links::format(&gpus.iter().map(to).collect::<Vec<_>>()));
        } else if style.links {
            let siblings = indices.iter().filter(|other| *other == index).count();
            let vector: Vec<i32> = (0..siblings)
                .map(|place| {
                    if place == place_in_gpu {
                        gpu::links::SELF
                    } else {
                        0
                    }
                })
                .collect();
            record.links = Some(gpu::links::format(&vector));
        }
    }
}

fn mig_record(
    inventory: &Inventory,
    gpu: &Gpu,
    instance: &MigInstance,
    style: MigStyle,
) -> Option<Record> {
    Some(Record {
        file: type_name::mig_files(gpu, instance)?,
        type_name: type_name::mig_gres_type(&gpu.name, instance, style.naming),
        links: None,
        unique_id: Some(type_name::mig_unique_id(
            &inventory.driver_version,
            &gpu.uuid,
            instance,
        )),
        cpus: None,
        is_mig: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::PciAddress;
    use gpu::locality::LocalitySource;
    use gpu::model::{DeviceFault, FaultKind};

    const STYLE: MigStyle = MigStyle {
        naming: MigNaming::DeviceName,
        links: false,
    };

    fn gpu(index: u32) -> Gpu {
        Gpu {
            index,
            minor: Some(index),
            uuid: format!("GPU-{index}"),
            pci: PciAddress::new(0, u8::try_from(index).unwrap(), 0, 0).unwrap(),
            name: "NVIDIA H100 80GB HBM3".into(),
            memory_mib: None,
            mig: MigState::Disabled,
            cpu_affinity: None,
            nvlinks: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn inventory(gpus: Vec<Result<Gpu, DeviceFault>>) -> Inventory {
        Inventory {
            driver_version: "570.1.1".into(),
            nvml_version: String::new(),
            gpus,
            notes: Vec::new(),
        }
    }

    fn anywhere(_: &Gpu) -> Locality {
        Locality {
            cpus: None,
            source: LocalitySource::Nobody,
        }
    }

    /// Three GPUs, 9 links between each.
    fn links() -> Vec<Vec<i32>> {
        vec![vec![-1, 9, 9], vec![9, -1, 9], vec![9, 9, -1]]
    }

    #[test]
    fn vectors_name_only_gpus_that_are_offered() {
        let lost = DeviceFault {
            index: 1,
            pci: None,
            uuid: None,
            call: "nvmlDeviceGetName",
            kind: FaultKind::Nvml(15),
        };
        let all = inventory(vec![Ok(gpu(0)), Err(lost), Ok(gpu(2))]);
        let out = records(&all, &links(), anywhere, STYLE, Some(2));
        let vectors: Vec<_> = out
            .records
            .iter()
            .map(|record| record.links.clone().unwrap())
            .collect();
        assert_eq!(vectors, ["-1,9", "9,-1"]);
        assert_eq!(out.records[1].file, "/dev/nvidia2");
        assert!(out.errors[0].contains("GPU 1") && out.errors[0].contains("not offered"));
    }

    #[test]
    fn a_node_with_fewer_gpus_in_slurm_conf_gets_no_links() {
        let all = inventory(vec![Ok(gpu(0)), Ok(gpu(1)), Ok(gpu(2))]);
        for (configured, given) in [
            (None, true),
            (Some(3), true),
            (Some(4), true),
            (Some(2), false),
        ] {
            let out = records(&all, &links(), anywhere, STYLE, configured);
            assert!(
                out.records
                    .iter()
                    .all(|record| record.links.is_some() == given),
                "{configured:?}"
            );
        }
    }

    #[test]
    fn mig_on_without_a_device_is_an_error_that_says_what_to_do() {
        let mut bare = gpu(0);
        bare.mig = MigState::Enabled(Vec::new());
        let out = records(
            &inventory(vec![Ok(bare), Ok(gpu(1))]),
            &links(),
            anywhere,
            STYLE,
            Some(1),
        );
        assert_eq!(out.records.len(), 1);
        assert_eq!(out.records[0].links.as_deref(), Some("-1"));
        assert!(
            out.errors[0].contains("nvidia-smi mig -cgi"),
            "{:?}",
            out.errors
        );
    }

    #[test]
    fn a_gpu_without_minor_is_left_out_and_named() {
        let mut odd = gpu(0);
        odd.minor = None;
        let out = records(&inventory(vec![Ok(odd)]), &[], anywhere, STYLE, None);
        assert!(out.records.is_empty() && out.errors[0].contains("minor number"));
    }
}
