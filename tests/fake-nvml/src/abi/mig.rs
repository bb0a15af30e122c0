//! MIG devices, GPU instances and compute instances.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t, nvmlGpuInstanceInfo_t,
    nvmlGpuInstancePlacement_t,
};

use super::exports;
use super::handle::Handle;
use super::out::{Out, Supported as _, count_of, list};
use crate::board::{Gpu, Mig};
use crate::status::Status;

exports! {
    any [nvmlDeviceIsMigDeviceHandle] (t; is: Out<c_uint>) => { is.set(t.mig.is_some().into()) }

    device [nvmlDeviceGetMigMode] (t; current: Out<c_uint>, pending: Out<c_uint>) => {
        t.mig_profiles.as_ref().supported()?;
        let now = t.mig_enabled();
        current.set(now.into())?;
        pending.set(t.settings().mig_pending.or(t.mig_pending).unwrap_or(now).into())
    }

    any [nvmlDeviceGetMaxMigDeviceCount] (t; count: Out<c_uint>) => {
        if t.mig.is_some() {
            return Err(Status::INVALID_ARGUMENT);
        }
        count.set(if t.mig_profiles.is_some() { 7 } else { 0 })
    }

    any [nvmlDeviceGetMigDeviceHandleByIndex] (t; index: c_uint, device: Out<Handle>) => {
        if t.mig.is_some() {
            return Err(Status::INVALID_ARGUMENT);
        }
        t.mig_profiles.as_ref().supported()?;
        let mig = t.gpu.mig.get(index as usize).ok_or(Status::NOT_FOUND)?;
        device.set(Handle::mig(t.gpu, mig))
    }

    any [nvmlDeviceGetDeviceHandleFromMigDeviceHandle] (t; device: Out<Handle>) => {
        t.mig.ok_or(Status::INVALID_ARGUMENT)?;
        device.set(Handle::gpu(t.gpu))
    }

    any [nvmlDeviceGetGpuInstanceId] (t; id: Out<c_uint>) => {
        id.set(t.mig.ok_or(Status::INVALID_ARGUMENT)?.gi)
    }

    any [nvmlDeviceGetComputeInstanceId] (t; id: Out<c_uint>) => {
        id.set(t.mig.ok_or(Status::INVALID_ARGUMENT)?.ci)
    }

    device [nvmlDeviceGetGpuInstances]
        (t; profile: c_uint, instances: Out<Handle>, count: Out<c_uint>) => {
        t.mig_profiles.as_ref().supported()?;
        let found: Vec<Handle> = gpu_instances(t.gpu)
            .filter(|mig| mig.profile.id == profile)
            .map(|mig| Handle::gpu_instance(t.gpu, mig.gi))
            .collect();
        // The buffer is as long as the profile allows; the count only tells.
        instances.fill(&found)?;
        count.set(count_of(found.len()))
    }

    device [nvmlDeviceGetGpuInstanceById] (t; id: c_uint, instance: Out<Handle>) => {
        t.mig_profiles.as_ref().supported()?;
        let found = gpu_instances(t.gpu).find(|mig| mig.gi == id).ok_or(Status::NOT_FOUND)?;
        instance.set(Handle::gpu_instance(t.gpu, found.gi))
    }

    instance [nvmlGpuInstanceGetInfo] ((board, handle); info: Out<nvmlGpuInstanceInfo_t>) => {
        let (gpu, migs) = handle.instance(board)?;
        let first = migs.first().copied().ok_or(Status::INVALID_ARGUMENT)?;
        info.set(nvmlGpuInstanceInfo_t {
            device: Handle::gpu(gpu).raw(),
            id: first.gi,
            profileId: first.profile.id,
            placement: nvmlGpuInstancePlacement_t {
                start: first.start,
                size: first.profile.memory_slices,
            },
        })
    }

    instance [nvmlGpuInstanceGetComputeInstances]
        ((board, handle); profile: c_uint, instances: Out<Handle>, count: Out<c_uint>) => {
        let (gpu, migs) = handle.instance(board)?;
        let found: Vec<Handle> = migs
            .iter()
            .filter(|mig| compute_profile(mig) == profile)
            .map(|mig| Handle::compute_instance(gpu, mig.gi, mig.ci))
            .collect();
        instances.fill(&found)?;
        count.set(count_of(found.len()))
    }

    instance [nvmlGpuInstanceGetComputeInstanceById]
        ((board, handle); id: c_uint, instance: Out<Handle>) => {
        let (gpu, migs) = handle.instance(board)?;
        let mig = migs.iter().find(|mig| mig.ci == id).ok_or(Status::NOT_FOUND)?;
        instance.set(Handle::compute_instance(gpu, mig.gi, mig.ci))
    }

    instance [nvmlComputeInstanceGetInfo, nvmlComputeInstanceGetInfo_v2]
        ((board, handle); info: Out<nvmlComputeInstanceInfo_t>) => {
        let (gpu, mig) = handle.compute(board)?;
        info.set(nvmlComputeInstanceInfo_t {
            device: Handle::gpu(gpu).raw(),
            gpuInstance: Handle::gpu_instance(gpu, mig.gi).raw(),
            id: mig.ci,
            profileId: compute_profile(mig),
            placement: nvmlComputeInstancePlacement_t { start: 0, size: mig.compute_slices() },
        })
    }

    device [nvmlDeviceGetGpuInstancePossiblePlacements, nvmlDeviceGetGpuInstancePossiblePlacements_v2]
        (t; profile: c_uint, placements: Out<nvmlGpuInstancePlacement_t>, count: Out<c_uint>) => {
        let profiles = t.mig_profiles.as_ref().supported()?;
        let profile = profiles.iter().find(|known| known.id == profile);
        let profile = profile.ok_or(Status::INVALID_ARGUMENT)?;
        let size = profile.memory_slices;
        let starts = (0..profile.instances).map(|number| number * size);
        let all: Vec<_> =
            starts.map(|start| nvmlGpuInstancePlacement_t { start, size }).collect();
        if placements.is_null() {
            return count.set(count_of(all.len()));
        }
        list(count, placements, &all)
    }

    device [nvmlDeviceGetGpuInstanceRemainingCapacity]
        (t; profile: c_uint, count: Out<c_uint>) => {
        let profiles = t.mig_profiles.as_ref().supported()?;
        let profile = profiles.iter().find(|known| known.id == profile);
        let profile = profile.ok_or(Status::INVALID_ARGUMENT)?;
        let taken: c_uint = gpu_instances(t.gpu).map(|mig| mig.profile.memory_slices).sum();
        let free = 8_u32.saturating_sub(taken) / profile.memory_slices.max(1);
        count.set(free.min(profile.instances))
    }
}

/// The GPU instances, each by its first MIG device.
fn gpu_instances(gpu: &Gpu) -> impl Iterator<Item = &Mig> {
    let first = |mig: &&Mig| {
        let same = gpu.mig.iter().find(|other| other.gi == mig.gi);
        same.is_some_and(|other| other.ci == mig.ci)
    };
    gpu.mig.iter().filter(first)
}

/// NVML's compute instance profile of so many slices.
fn compute_profile(mig: &Mig) -> c_uint {
    super::mig_profiles::number_of_slices(mig.compute_slices()).unwrap_or(0)
}
