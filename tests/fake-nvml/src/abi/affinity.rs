//! Where the devices are: CPUs, NUMA nodes, and how far from each other.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_ulong};

use nvml_wrapper_sys::bindings::{nvmlDeviceAddressingMode_t, nvmlGpuP2PStatus_t};

use super::entry::Target;
use super::exports;
use super::handle::Handle;
use super::out::{Answer, Out, Supported as _, list_or_count};
use crate::board::Gpu;
use crate::cpulist;
use crate::scenario::{CpuAffinity, RemoteKind};
use crate::status::Status;

const SCOPE_NODE: c_uint = 0;
const SCOPE_SOCKET: c_uint = 1;

exports! {
    any [nvmlDeviceGetCpuAffinity] (t; size: c_uint, set: Out<c_ulong>) => {
        words(set, size, &near(t, false)?)
    }

    any [nvmlDeviceGetCpuAffinityWithinScope]
        (t; size: c_uint, set: Out<c_ulong>, scope: c_uint) => {
        words(set, size, &near(t, scoped(scope)?)?)
    }

    any [nvmlDeviceGetMemoryAffinity]
        (t; size: c_uint, set: Out<c_ulong>, scope: c_uint) => {
        scoped(scope)?;
        let node = usize::try_from(t.numa_node.supported()?).map_err(|_| Status::NOT_SUPPORTED)?;
        words(set, size, &BTreeSet::from([node]))
    }

    any [nvmlDeviceSetCpuAffinity, nvmlDeviceClearCpuAffinity] (t;) => { near(t, false).map(|_| ()) }

    any [nvmlDeviceGetNumaNodeId] (t; node: Out<c_uint>) => {
        node.set(t.gpu_numa_node.supported()?)
    }

    device [nvmlDeviceGetAddressingMode] (t; mode: Out<nvmlDeviceAddressingMode_t>) => {
        let mut value = mode.versioned(1)?;
        value.value = t.addressing_mode.supported()?;
        mode.set(value)
    }

    device [nvmlDeviceGetC2cModeInfoV] (t; info: Out<c_uint>) => {
        info.set(t.c2c.supported()?.into())
    }

    any [nvmlDeviceGetTopologyCommonAncestor] (t; other: Handle, level: Out<c_uint>) => {
        level.set(common_ancestor(t.gpu, other.target(t.board)?.gpu))
    }

    any [nvmlDeviceGetTopologyNearestGpus]
        (t; level: c_uint, count: Out<c_uint>, devices: Out<Handle>) => {
        let others = t.board.gpus.iter().filter(|gpu| gpu.position != t.position);
        let near = others.filter(|gpu| common_ancestor(t.gpu, gpu) == level).map(Handle::gpu);
        list_or_count(count, devices, &near.collect::<Vec<_>>())
    }

    system [nvmlSystemGetTopologyGpuSet]
        (board; cpu: c_uint, count: Out<c_uint>, devices: Out<Handle>) => {
        let near = board.gpus.iter().filter(|gpu| gpu.cpus.contains(&(cpu as usize)));
        list_or_count(count, devices, &near.map(Handle::gpu).collect::<Vec<_>>())
    }

    device [nvmlDeviceOnSameBoard] (t; other: Handle, same: Out<c_int>) => {
        same.set((other.target(t.board)?.gpu.position == t.position).into())
    }

    device [nvmlDeviceGetP2PStatus]
        (t; other: Handle, index: c_uint, status: Out<nvmlGpuP2PStatus_t>) => {
        let other = other.target(t.board)?;
        let linked = linked(t.gpu, other.gpu);
        match index {
            // Read, write, PCI: any pair; NVLink and atomics: linked ones.
            0 | 1 | 4 => status.set(0),
            2 | 3 => status.set(if linked { 0 } else { 5 }),
            _ => Err(Status::INVALID_ARGUMENT),
        }
    }
}

fn scoped(scope: c_uint) -> Result<bool, Status> {
    match scope {
        SCOPE_NODE => Ok(false),
        SCOPE_SOCKET => Ok(true),
        _ => Err(Status::INVALID_ARGUMENT),
    }
}

fn near(t: &Target<'_>, socket: bool) -> Result<BTreeSet<usize>, Status> {
    match t
        .board
        .scenario
        .machine
        .cpu_affinity
        .unwrap_or(CpuAffinity::Local)
    {
        CpuAffinity::NotSupported => Err(Status::NOT_SUPPORTED),
        CpuAffinity::Machine => Ok((0..t.board.cpus()).collect()),
        CpuAffinity::Local => {
            let cpus = if socket {
                &t.gpu.socket_cpus
            } else {
                &t.gpu.cpus
            };
            if cpus.is_empty() {
                Err(Status::NOT_SUPPORTED)
            } else {
                Ok(cpus.clone())
            }
        }
    }
}

/// Fills the caller's words; what does not fit is left out, as NVML does.
fn words(set: Out<c_ulong>, size: c_uint, members: &BTreeSet<usize>) -> Answer {
    if size == 0 || set.is_null() {
        return Err(Status::INVALID_ARGUMENT);
    }
    // No machine has more; a caller's larger buffer just keeps its tail.
    set.fill(&cpulist::words(members, (size as usize).min(4096)))
}

/// NVML's `NVML_TOPOLOGY_*`: 0 same board, 10 one PCIe switch, 20 several, 30 host bridge,
/// 40 NUMA node, 50 system.
fn common_ancestor(one: &Gpu, other: &Gpu) -> c_uint {
    if one.position == other.position {
        return 0;
    }
    let pairs = one.bridges.iter().zip(&other.bridges);
    let shared = pairs.take_while(|(a, b)| a == b).count();
    // Below the last shared bridge, each has a downstream port of that switch.
    let below = one.bridges.len().max(other.bridges.len()) - shared;
    let root = |gpu: &Gpu| {
        gpu.bridges
            .first()
            .map(|bridge| (bridge.domain, bridge.bus))
    };
    if shared >= 2 && below <= 1 {
        10
    } else if shared >= 1 {
        20
    } else if root(one).is_some() && root(one) == root(other) {
        30
    } else if one.numa_node.is_some() && one.numa_node == other.numa_node {
        40
    } else {
        50
    }
}

/// Whether active NVLinks join the two, directly or through switches.
fn linked(one: &Gpu, other: &Gpu) -> bool {
    let active = |gpu: &Gpu| {
        let down = gpu
            .nvlink
            .as_ref()
            .and_then(|nvlink| nvlink.down.clone())
            .unwrap_or_default();
        let up = gpu.links.clone().into_iter().enumerate();
        up.filter(move |(n, _)| !down.iter().any(|d| *d as usize == *n))
            .map(|(_, to)| to)
    };
    let switched = |gpu: &Gpu| {
        gpu.nvlink
            .as_ref()
            .is_some_and(|nvlink| nvlink.remote == Some(RemoteKind::Switch))
    };
    if switched(one) && switched(other) {
        // Switches of one machine are joined among themselves.
        active(one).next().is_some() && active(other).next().is_some()
    } else {
        active(one).any(|to| to == other.pci)
    }
}
