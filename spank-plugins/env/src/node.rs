//! What the node says of itself.

use std::fs;
use std::path::Path;

use slurm_plugin::node_files::NodeFiles;
use spank_core::env::TaskCpus;
use spank_core::env::port::{self, Taken};

/// Ports that others take.
pub(crate) fn taken_ports() -> Taken {
    let kernel = read("/proc/sys/net/ipv4/ip_local_port_range");
    Taken {
        kernel: kernel.as_deref().and_then(port::kernel_range),
        srun: srun_ports(),
    }
}

/// srun's ports by slurm.conf: where slurmd says that it is, where it is usually, where slurmd keeps the
/// controller's.
fn srun_ports() -> Option<(u16, u16)> {
    let named = std::env::var("SLURM_CONF").ok();
    let (path, text) = named
        .into_iter()
        .chain(["/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"].map(str::to_owned))
        .find_map(|path| read(&path).map(|text| (path, text)))?;
    let folder = Path::new(&path).parent()?;
    port::srun_range(&text, &|name| fs::read_to_string(folder.join(name)).ok())
}

/// Network interfaces.
pub(crate) fn interfaces() -> Vec<String> {
    names("/sys/class/net")
}

/// InfiniBand devices.
pub(crate) fn hcas() -> Vec<String> {
    names("/sys/class/infiniband")
}

/// Where the calling task may run.
pub(crate) fn own_cpus(files: &NodeFiles) -> Option<TaskCpus> {
    let mask = gpu::affinity::of_this_process().ok()?;
    Some(TaskCpus::of(&mask, |cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        files.read(&path).ok()?.trim().parse().ok()
    }))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
