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
/// gives them; `locality` tells which CPUs are near a GPU.
pub fn records(
    inventory: &Inventory,
    links: &[Vec<i32>],
    locality: impl Fn(&Gpu) -> Locality,
    style: MigStyle,
) -> Records {
    let mut out = Records::default();
    for entry in &inventory.gpus {
        let gpu = match entry {
            Ok(gpu) => gpu,
            Err(fault) => {
                out.errors
                    .push(format!("{fault}; this GPU is not offered to jobs"));
                continue;
            }
        };
        out.notes.extend(
            gpu.notes
                .iter()
                .map(|note| format!("GPU {} ({}): {note}", gpu.index, gpu.pci)),
        );
        let Some(file) = gpu.device_file() else {
            out.errors.push(format!(
                "GPU {} ({}): NVML knows no minor number, so its device file is unknown; \
                 this GPU is not offered to jobs",
                gpu.index, gpu.pci
            ));
            continue;
        };
        let locality = locality(gpu);
        if locality.cpus.is_none() {
            out.notes.push(format!(
                "GPU {} ({}): no CPU is known to be near it: {}",
                gpu.index,
                gpu.pci,
                locality.source.reason()
            ));
        }
        match &gpu.mig {
            MigState::PendingEnable => out.notes.push(format!(
                "GPU {} ({}): MIG comes on at its next reset",
                gpu.index, gpu.pci
            )),
            MigState::PendingDisable(_) => out.notes.push(format!(
                "GPU {} ({}): MIG goes off at its next reset",
                gpu.index, gpu.pci
            )),
            MigState::Unsupported | MigState::Disabled | MigState::Enabled(_) => {}
        }
        match gpu.mig.instances() {
            None => out.records.push(Record {
                file,
                type_name: type_name::gres_type(&gpu.name),
                links: usize::try_from(gpu.index)
                    .ok()
                    .and_then(|index| links.get(index))
                    .map(|vector| gpu::links::format(vector)),
                unique_id: None,
                cpus: locality.cpus,
                is_mig: false,
            }),
            Some([]) => out.errors.push(format!(
                "GPU {} ({}): MIG is on but there is no MIG device; this GPU is not offered to jobs: \
                 create instances (nvidia-smi mig -cgi … -C) or turn MIG off (nvidia-smi -i {} -mig 0), \
                 then restart slurmd",
                gpu.index, gpu.pci, gpu.pci
            )),
            Some(instances) => {
                for (position, instance) in instances.iter().enumerate() {
                    match mig_record(inventory, gpu, instance, style) {
                        Some(record) => out.records.push(Record {
                            links: style.links.then(|| order_links(position, instances.len())),
                            cpus: locality.cpus.clone(),
                            ..record
                        }),
                        None => out.errors.push(format!(
                            "GPU {} ({}): the device files of MIG device {} (gpu instance {}, compute \
                             instance {}) are not in /proc/driver/nvidia-caps/mig-minors; it is not \
                             offered to jobs",
                            gpu.index,
                            gpu.pci,
                            instance.index,
                            instance.gpu_instance_id,
                            instance.compute_instance_id
                        )),
                    }
                }
            }
        }
    }
    out
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

/// `Links` of the MIG device at `position` of `count`: MIG devices have no links, but the place of
/// the -1 tells Slurm their order.
fn order_links(position: usize, count: usize) -> String {
    let vector: Vec<i32> = (0..count)
        .map(|other| {
            if other == position {
                gpu::links::SELF
            } else {
                0
            }
        })
        .collect();
    gpu::links::format(&vector)
}
