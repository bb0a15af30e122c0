//! The list of GPUs, in slurmd and `slurmd -G`.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use gpu::CpuSet;
use gpu::locality::{LocalityFacts, near_cpus};
use gpu::model::{Gpu, Inventory};
use gpu::nvml::{DiscoverOptions, Worker, discover};
use gpu::sysfs::{PciPath, PciProximity, Sysfs, proximity};
use gpu::type_name::MigNaming;
use gres_gpu_core::records::{MigStyle, Record, records};
use slurm_headers::internal::node_config_load_t;
use slurm_plugin::bitstring::Bitmap;
use slurm_plugin::gres::{self, GpuRecord};
use slurm_plugin::host;
use slurm_plugin::list::RawList;
use slurm_plugin::log::{self, Level};
use slurm_plugin::memory::SlurmString;

use crate::{Driver, numbering, publish};

static WORKER: Worker = Worker::new();

/// How many GPUs and MIG devices the last discovery found.
static FOUND: AtomicU32 = AtomicU32::new(0);

const MIG_STYLE: MigStyle = MigStyle {
    naming: if gres::MIG_NAMED_BY_DEVICE {
        MigNaming::DeviceName
    } else {
        MigNaming::Attributes
    },
    links: gres::MIG_HAS_LINKS,
};

/// `gpu_p_get_system_gpu_list`: a list of `gres_slurmd_conf_t` for Slurm to destroy; NULL when NVML
/// as a whole cannot be asked.
///
/// # Safety
/// `config` is NULL or Slurm's live configuration of the node.
pub unsafe fn system_gpu_list(driver: Driver, config: *mut node_config_load_t) -> RawList {
    // SAFETY: the caller's contract.
    let Some(config) = (unsafe { config.as_ref() }) else {
        return null_mut();
    };
    publish::withdraw();
    if !driver.acts() {
        return null_mut();
    }
    let configured = host::configured_gres().map(|gres| gres_gpu_core::configured::gpus(&gres));
    let inventory = match discover(&WORKER, &DiscoverOptions::default()) {
        Ok(inventory) => inventory,
        Err(error) => {
            // A node without GPUs may share its gres.conf with those that have some.
            let level = if configured == Some(0) {
                Level::Verbose
            } else {
                Level::Error
            };
            log::write(level, format_args!("no GPU is offered to jobs: {error}"));
            return null_mut();
        }
    };
    log::debug(format_args!(
        "NVIDIA driver {}, NVML {}",
        inventory.driver_version, inventory.nvml_version
    ));
    for note in &inventory.notes {
        log::info(note);
    }

    let cpus = enabled_cpus(config.cpu_cnt);
    let sysfs = Sysfs::default();
    let (links, rule) = links(&inventory, &sysfs);
    log::debug(format_args!("links rank GPUs by {rule:?}"));
    let found = records(
        &inventory,
        &links,
        |gpu| locality(gpu, &sysfs, &cpus),
        MIG_STYLE,
        configured,
    );
    for error in &found.errors {
        log::error(error);
    }
    for note in &found.notes {
        log::info(note);
    }

    let Some(list) = gres::new_list() else {
        return null_mut();
    };
    let mut conversions = Conversions::new(config);
    for record in &found.records {
        let cores = record
            .cpus
            .as_ref()
            .and_then(|cpus| conversions.cores(cpus));
        log::debug2(format_args!(
            "{} {} cpus={} links={}",
            record.file,
            record.type_name,
            record
                .cpus
                .as_ref()
                .map_or_else(|| "any".to_owned(), CpuSet::to_string),
            record.links.as_deref().unwrap_or("none"),
        ));
        gres::append(&list, &gpu_record(record, cores), config.cpu_cnt);
    }
    let count = u32::try_from(found.records.len()).unwrap_or(u32::MAX);
    FOUND.store(count, Ordering::Relaxed);
    log::info(format_args!(
        "{} GPU system device(s) detected",
        inventory.gpus.len()
    ));
    publish::start(inventory);
    list.into_raw()
}

/// `gpu_p_get_device_count`: how many indices Slurm's own numbering of GPUs has on this node. That is
/// what the index of `gpu_p_energy_read` and the bitmaps of steps count by, not NVML's number.
///
/// # Safety
/// `count` is NULL or where the number goes.
pub unsafe fn device_count(count: *mut u32) {
    let numbered = numbering::places().len();
    let answer = match u32::try_from(numbered) {
        Ok(numbered) if numbered > 0 => numbered,
        _ => FOUND.load(Ordering::Relaxed),
    };
    // SAFETY: the caller's contract.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = answer;
    }
}

/// Forgets a discovery that hangs, for a plugin that is loaded again.
pub(crate) fn reset() {
    WORKER.reset();
}

fn gpu_record<'a>(
    record: &'a Record,
    cores: Option<(&'a SlurmString, &'a Bitmap)>,
) -> GpuRecord<'a> {
    GpuRecord {
        file: Some(&record.file),
        type_name: Some(&record.type_name),
        links: record.links.as_deref(),
        unique_id: record.unique_id.as_deref(),
        cores,
        flags: if record.is_mig {
            gres::MIG_FLAGS
        } else {
            gres::GPU_FLAGS
        },
    }
}

/// The machine's CPUs that Slurm uses: those that it says, else as many as the node has.
fn enabled_cpus(count: u32) -> CpuSet {
    let mut cpus = CpuSet::new();
    for cpu in host::enabled_cpus() {
        cpus.insert(cpu);
    }
    match count.checked_sub(1) {
        Some(last) if cpus.is_empty() => CpuSet::from_range(0, last),
        _ => cpus,
    }
}

fn locality(gpu: &Gpu, sysfs: &Sysfs, cpus: &CpuSet) -> gpu::locality::Locality {
    let from_nvml = LocalityFacts {
        nvml: gpu.cpu_affinity.as_ref(),
        ..LocalityFacts::default()
    };
    let first = near_cpus(from_nvml, cpus);
    if first.cpus.is_some() {
        return first;
    }
    let local = sysfs.local_cpulist(&gpu.pci);
    near_cpus(
        LocalityFacts {
            numa_node: sysfs.numa_node(&gpu.pci),
            local_cpulist: local.as_ref(),
            ..from_nvml
        },
        cpus,
    )
}

/// The vectors of the node; the ways over PCIe are read only when the board has no NVLink.
fn links(inventory: &Inventory, sysfs: &Sysfs) -> (Vec<Vec<i32>>, gpu::links::LinkRule) {
    let places: std::cell::OnceCell<Vec<Option<Place>>> = std::cell::OnceCell::new();
    let place = |index: usize| {
        places
            .get_or_init(|| {
                inventory
                    .gpus
                    .iter()
                    .map(|gpu| Place::of(gpu.as_ref().ok()?, sysfs))
                    .collect()
            })
            .get(index)?
            .as_ref()
    };
    gpu::links::inventory_links(inventory, |a, b| Some(place(a)?.proximity(place(b)?)))
}

struct Place {
    path: PciPath,
    node: Option<u32>,
}

impl Place {
    fn of(gpu: &Gpu, sysfs: &Sysfs) -> Option<Self> {
        Some(Self {
            path: sysfs.pci_path(&gpu.pci).ok()?,
            node: sysfs.numa_node(&gpu.pci),
        })
    }

    fn proximity(&self, other: &Self) -> PciProximity {
        proximity(&self.path, &other.path, self.node, other.node)
    }
}

/// CPUs of the machine as Slurm's abstract cores. Most GPUs share theirs, so each set is converted
/// once.
struct Conversions<'a> {
    config: &'a node_config_load_t,
    done: HashMap<String, Option<(SlurmString, Bitmap)>>,
}

impl<'a> Conversions<'a> {
    fn new(config: &'a node_config_load_t) -> Self {
        Self {
            config,
            done: HashMap::new(),
        }
    }

    /// Both forms of `cpus`; `None`, with a line in the log, if Slurm cannot convert them: the GPU is
    /// then offered without cores rather than not at all.
    fn cores(&mut self, cpus: &CpuSet) -> Option<(&SlurmString, &Bitmap)> {
        let range = cpus.to_string();
        let config = self.config;
        let entry = self.done.entry(range).or_insert_with_key(|range| {
            let converted = convert(config, cpus, range);
            if converted.is_none() {
                log::info(format_args!(
                    "CPUs {range} do not fit the {} CPUs of this node in slurm.conf; \
                     the GPUs near them are offered without cores: check CPUs=, Sockets= and \
                     CoresPerSocket= (slurmd -C prints what the machine has)",
                    config.cpu_cnt
                ));
            }
            converted
        });
        entry.as_ref().map(|(cores, bitmap)| (cores, bitmap))
    }
}

fn convert(
    config: &node_config_load_t,
    cpus: &CpuSet,
    range: &str,
) -> Option<(SlurmString, Bitmap)> {
    // Slurm ends the daemon when a bit lies beyond the node's CPUs (`add_gres_to_list`).
    if cpus.last()? >= config.cpu_cnt {
        return None;
    }
    let mut bitmap = Bitmap::new(usize::try_from(config.cpu_cnt).ok()?)?;
    for cpu in cpus.iter() {
        bitmap.set(usize::try_from(cpu).ok()?);
    }
    let machine = SlurmString::new(range);
    let mut abstracted = null_mut();
    let mac_to_abs = config.xcpuinfo_mac_to_abs?;
    // SAFETY: Slurm's function reads the range and stores a string of its allocator, or fails.
    let rc = unsafe { mac_to_abs(machine.as_ptr(), &raw mut abstracted) };
    // SAFETY: NULL or a string that Slurm gave away.
    let cores = unsafe { SlurmString::from_raw(abstracted) };
    (rc == 0 && !cores.as_ptr().is_null()).then_some((cores, bitmap))
}
