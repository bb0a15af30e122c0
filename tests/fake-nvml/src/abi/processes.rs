//! Who runs on a device.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlProcessDetail_v1_t, nvmlProcessDetailList_v1_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t,
};

use super::entry::Target;
use super::exports;
use super::out::{Answer, Out, list};
use crate::scenario::{Process, ProcessKind};
use crate::status::Status;

const NO_INSTANCE: c_uint = c_uint::MAX;
const MIB: u64 = 1 << 20;

/// A live process on the device.
pub(super) struct Running<'a> {
    pub(super) pid: c_uint,
    pub(super) process: &'a Process,
}

exports! {
    any [nvmlDeviceGetComputeRunningProcesses]
        (t; count: Out<c_uint>, infos: Out<nvmlProcessInfo_v1_t>) => {
        oldest(t, ProcessKind::Compute, count, infos)
    }

    any [nvmlDeviceGetGraphicsRunningProcesses]
        (t; count: Out<c_uint>, infos: Out<nvmlProcessInfo_v1_t>) => {
        oldest(t, ProcessKind::Graphics, count, infos)
    }

    any [nvmlDeviceGetMPSComputeRunningProcesses]
        (t; count: Out<c_uint>, infos: Out<nvmlProcessInfo_v1_t>) => {
        oldest(t, ProcessKind::Mps, count, infos)
    }

    // The third version has the second's struct.
    any [nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3]
        (t; count: Out<c_uint>, infos: Out<nvmlProcessInfo_v2_t>) => {
        newer(t, ProcessKind::Compute, count, infos)
    }

    any [nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3]
        (t; count: Out<c_uint>, infos: Out<nvmlProcessInfo_v2_t>) => {
        newer(t, ProcessKind::Graphics, count, infos)
    }

    any [nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetMPSComputeRunningProcesses_v3]
        (t; count: Out<c_uint>, infos: Out<nvmlProcessInfo_v2_t>) => {
        newer(t, ProcessKind::Mps, count, infos)
    }

    any [nvmlDeviceGetRunningProcessDetailList] (t; details: Out<nvmlProcessDetailList_v1_t>) => {
        let mut asked = details.versioned(1)?;
        let kind = match asked.mode {
            0 => ProcessKind::Compute,
            1 => ProcessKind::Graphics,
            2 => ProcessKind::Mps,
            _ => return Err(Status::INVALID_ARGUMENT),
        };
        let found: Vec<nvmlProcessDetail_v1_t> = of_kind(t, kind).map(|info| {
            nvmlProcessDetail_v1_t {
                pid: info.pid,
                usedGpuMemory: info.usedGpuMemory,
                gpuInstanceId: info.gpuInstanceId,
                computeInstanceId: info.computeInstanceId,
                usedGpuCcProtectedMemory: 0,
            }
        }).collect();
        let room = asked.numProcArrayEntries as usize;
        let array = Out::pointing_at(asked.procArray);
        asked.numProcArrayEntries = super::out::count_of(found.len());
        details.set(asked)?;
        if room < found.len() {
            return Err(Status::INSUFFICIENT_SIZE);
        }
        array.fill(&found)
    }
}

fn oldest(
    t: &Target<'_>,
    kind: ProcessKind,
    count: Out<c_uint>,
    infos: Out<nvmlProcessInfo_v1_t>,
) -> Answer {
    let found = of_kind(t, kind).map(|info| nvmlProcessInfo_v1_t {
        pid: info.pid,
        usedGpuMemory: info.usedGpuMemory,
    });
    list(count, infos, &found.collect::<Vec<_>>())
}

fn newer(
    t: &Target<'_>,
    kind: ProcessKind,
    count: Out<c_uint>,
    infos: Out<nvmlProcessInfo_v2_t>,
) -> Answer {
    list(count, infos, &of_kind(t, kind).collect::<Vec<_>>())
}

fn of_kind(t: &Target<'_>, kind: ProcessKind) -> impl Iterator<Item = nvmlProcessInfo_v2_t> {
    let cut = t.mig_enabled();
    let found = running(t)
        .into_iter()
        .filter(move |running| running.process.kind == kind);
    found.map(move |running| nvmlProcessInfo_v2_t {
        pid: running.pid,
        usedGpuMemory: running.process.gpu_memory_mib * MIB,
        gpuInstanceId: if cut {
            running.process.gi.unwrap_or(NO_INSTANCE)
        } else {
            NO_INSTANCE
        },
        computeInstanceId: if cut {
            running.process.ci.unwrap_or(0)
        } else {
            NO_INSTANCE
        },
    })
}

/// The processes on the device or MIG device, each once.
pub(super) fn running<'a>(t: &Target<'a>) -> Vec<Running<'a>> {
    let mut found: Vec<Running<'a>> = Vec::new();
    let named = t.gpu.processes.iter().any(|process| process.comm.is_some());
    let alive = if named { alive() } else { Vec::new() };
    for process in &t.gpu.processes {
        let here = t
            .mig
            .is_none_or(|mig| process.gi == Some(mig.gi) && process.ci.unwrap_or(0) == mig.ci);
        if !here {
            continue;
        }
        if let Some(pid) = process.pid {
            found.push(Running { pid, process });
        }
        if let Some(comm) = &process.comm {
            let same = alive
                .iter()
                .filter(|(_, name)| name == comm)
                .map(|(pid, _)| *pid);
            let ours = same.filter(|pid| in_cgroup(*pid, process.cgroup.as_deref()));
            found.extend(ours.map(|pid| Running { pid, process }));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|running| seen.insert(running.pid));
    found
}

/// Memory that the processes hold, in MiB.
pub(super) fn memory_of_processes_mib(t: &Target<'_>) -> u64 {
    running(t)
        .iter()
        .map(|running| running.process.gpu_memory_mib)
        .sum()
}

/// All processes and their names.
fn alive() -> Vec<(c_uint, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<c_uint>().ok());
    let named = pids.filter_map(|pid| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some((pid, comm.trim_end().to_owned()))
    });
    let mut all: Vec<_> = named.collect();
    all.sort_unstable();
    all
}

fn in_cgroup(pid: c_uint, wanted: Option<&str>) -> bool {
    let Some(wanted) = wanted else { return true };
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(wanted))
}
