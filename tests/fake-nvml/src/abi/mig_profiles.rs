//! What a device and its GPU instances can be cut into.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstanceProfileInfo_t, nvmlComputeInstanceProfileInfo_v2_t,
    nvmlComputeInstanceProfileInfo_v3_t, nvmlGpuInstanceProfileInfo_t,
    nvmlGpuInstanceProfileInfo_v2_t, nvmlGpuInstanceProfileInfo_v3_t,
};

use super::entry::Target;
use super::exports;
use super::handle::Handle;
use super::out::{Answer, Out, Supported as _, array, version};
use crate::board::{Board, Mig};
use crate::scenario::MigProfile;
use crate::status::Status;

exports! {
    device [nvmlDeviceGetGpuInstanceProfileInfo]
        (t; number: c_uint, info: Out<nvmlGpuInstanceProfileInfo_t>) => {
        let profile = numbered(t, number)?;
        info.set(nvmlGpuInstanceProfileInfo_t {
            id: profile.id,
            isP2pSupported: 0,
            sliceCount: profile.slices,
            instanceCount: profile.instances,
            multiprocessorCount: profile.multiprocessors,
            copyEngineCount: profile.copy_engines,
            decoderCount: profile.decoders,
            encoderCount: profile.encoders,
            jpegCount: profile.jpeg,
            ofaCount: profile.ofa,
            memorySizeMB: profile.memory_mib,
        })
    }

    device [nvmlDeviceGetGpuInstanceProfileInfoV]
        (t; number: c_uint, info: Out<nvmlGpuInstanceProfileInfo_v3_t>) => {
        versioned(t, numbered(t, number)?, info)
    }

    device [nvmlDeviceGetGpuInstanceProfileInfoByIdV]
        (t; id: c_uint, info: Out<nvmlGpuInstanceProfileInfo_v3_t>) => {
        let profiles = t.mig_profiles.as_ref().supported()?;
        let profile = profiles.iter().find(|profile| profile.id == id);
        versioned(t, profile.ok_or(Status::NOT_SUPPORTED)?, info)
    }

    instance [nvmlGpuInstanceGetComputeInstanceProfileInfo]
        ((board, handle); number: c_uint, _engines: c_uint,
            info: Out<nvmlComputeInstanceProfileInfo_t>) => {
        let part = part(board, handle, number)?;
        info.set(nvmlComputeInstanceProfileInfo_t {
            id: number,
            sliceCount: part.slices,
            instanceCount: part.instances,
            multiprocessorCount: part.multiprocessors,
            sharedCopyEngineCount: part.of.copy_engines,
            sharedDecoderCount: part.of.decoders,
            sharedEncoderCount: part.of.encoders,
            sharedJpegCount: part.of.jpeg,
            sharedOfaCount: part.of.ofa,
        })
    }

    instance [nvmlGpuInstanceGetComputeInstanceProfileInfoV]
        ((board, handle); number: c_uint, _engines: c_uint,
            info: Out<nvmlComputeInstanceProfileInfo_v3_t>) => {
        let part = part(board, handle, number)?;
        let asked = info.as_start::<c_uint>().get()?;
        let whole = nvmlComputeInstanceProfileInfo_v3_t {
            version: asked,
            id: number,
            sliceCount: part.slices,
            instanceCount: part.instances,
            multiprocessorCount: part.multiprocessors,
            sharedCopyEngineCount: part.of.copy_engines,
            sharedDecoderCount: part.of.decoders,
            sharedEncoderCount: part.of.encoders,
            sharedJpegCount: part.of.jpeg,
            sharedOfaCount: part.of.ofa,
            name: array(&part.name()),
            capabilities: 0,
        };
        if asked == version::<nvmlComputeInstanceProfileInfo_v3_t>(3) {
            info.set(whole)
        } else if asked == version::<nvmlComputeInstanceProfileInfo_v2_t>(2) {
            info.as_start().set(nvmlComputeInstanceProfileInfo_v2_t {
                version: asked,
                id: whole.id,
                sliceCount: whole.sliceCount,
                instanceCount: whole.instanceCount,
                multiprocessorCount: whole.multiprocessorCount,
                sharedCopyEngineCount: whole.sharedCopyEngineCount,
                sharedDecoderCount: whole.sharedDecoderCount,
                sharedEncoderCount: whole.sharedEncoderCount,
                sharedJpegCount: whole.sharedJpegCount,
                sharedOfaCount: whole.sharedOfaCount,
                name: whole.name,
            })
        } else {
            Err(Status::ARGUMENT_VERSION_MISMATCH)
        }
    }

    instance [nvmlGpuInstanceGetComputeInstanceRemainingCapacity]
        ((board, handle); number: c_uint, count: Out<c_uint>) => {
        let part = part(board, handle, number)?;
        let (_, migs) = handle.instance(board)?;
        let taken: c_uint = migs.iter().map(|mig| Mig::compute_slices(mig)).sum();
        count.set(part.of.slices.saturating_sub(taken) / part.slices)
    }
}

/// NVML's profile numbers by slices, the same for GPU and compute instances.
const NUMBERS: [(c_uint, c_uint); 7] = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 7), (5, 8), (6, 6)];

/// The number of the plain profile with so many slices.
pub(super) fn number_of_slices(slices: c_uint) -> Option<c_uint> {
    NUMBERS.iter().find(|row| row.1 == slices).map(|row| row.0)
}

fn slices_of_number(number: c_uint) -> Option<c_uint> {
    NUMBERS.iter().find(|row| row.0 == number).map(|row| row.1)
}

/// A profile by NVML's number; 9 is the one-slice profile with twice the memory.
fn numbered<'a>(t: &'a Target<'_>, number: c_uint) -> Result<&'a MigProfile, Status> {
    let profiles = t.gpu.mig_profiles.as_ref().supported()?;
    if number > 16 {
        return Err(Status::INVALID_ARGUMENT);
    }
    let found = match slices_of_number(number) {
        Some(slices) => profiles
            .iter()
            .find(|profile| profile.slices == slices && (slices > 1 || profile.memory_slices == 1)),
        None if number == 9 => profiles
            .iter()
            .find(|profile| profile.slices == 1 && profile.memory_slices == 2),
        None => None,
    };
    found.supported()
}

fn versioned(
    t: &Target<'_>,
    profile: &MigProfile,
    info: Out<nvmlGpuInstanceProfileInfo_v3_t>,
) -> Answer {
    let asked = info.as_start::<c_uint>().get()?;
    let name = array(&format!("MIG {}", profile.name));
    if asked == version::<nvmlGpuInstanceProfileInfo_v3_t>(3) {
        info.set(nvmlGpuInstanceProfileInfo_v3_t {
            version: asked,
            id: profile.id,
            sliceCount: profile.slices,
            instanceCount: profile.instances,
            multiprocessorCount: profile.multiprocessors,
            copyEngineCount: profile.copy_engines,
            decoderCount: profile.decoders,
            encoderCount: profile.encoders,
            jpegCount: profile.jpeg,
            ofaCount: profile.ofa,
            memorySizeMB: profile.memory_mib,
            name,
            capabilities: u32::from(t.c2c == Some(true)),
        })
    } else if asked == version::<nvmlGpuInstanceProfileInfo_v2_t>(2) {
        info.as_start().set(nvmlGpuInstanceProfileInfo_v2_t {
            version: asked,
            id: profile.id,
            isP2pSupported: 0,
            sliceCount: profile.slices,
            instanceCount: profile.instances,
            multiprocessorCount: profile.multiprocessors,
            copyEngineCount: profile.copy_engines,
            decoderCount: profile.decoders,
            encoderCount: profile.encoders,
            jpegCount: profile.jpeg,
            ofaCount: profile.ofa,
            memorySizeMB: profile.memory_mib,
            name,
        })
    } else {
        Err(Status::ARGUMENT_VERSION_MISMATCH)
    }
}

/// What a compute instance of so many slices has of its GPU instance.
struct Part<'a> {
    of: &'a MigProfile,
    slices: c_uint,
    instances: c_uint,
    multiprocessors: c_uint,
}

impl Part<'_> {
    fn name(&self) -> String {
        if self.slices == self.of.slices {
            format!("MIG {}", self.of.name)
        } else {
            format!("MIG {}c.{}", self.slices, self.of.name)
        }
    }
}

fn part(board: &Board, handle: Handle, number: c_uint) -> Result<Part<'_>, Status> {
    let (_, migs) = handle.instance(board)?;
    let of = &migs
        .first()
        .copied()
        .ok_or(Status::INVALID_ARGUMENT)?
        .profile;
    let slices = slices_of_number(number).ok_or(Status::INVALID_ARGUMENT)?;
    if slices > of.slices {
        return Err(Status::NOT_SUPPORTED);
    }
    let multiprocessors = of.multiprocessors * slices / of.slices;
    Ok(Part {
        of,
        slices,
        instances: of.slices / slices,
        multiprocessors,
    })
}
