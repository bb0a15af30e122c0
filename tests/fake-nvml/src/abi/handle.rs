//! Device handles: numbers that say which device, never addresses.

use std::ffi::c_void;

use super::entry::Target;
use crate::board::{Board, Gpu, Mig};
use crate::status::Status;

const DEVICE: usize = 0x4e56_0000_0000;
const GPU_INSTANCE: usize = 0x4e57_0000_0000;
const COMPUTE_INSTANCE: usize = 0x4e58_0000_0000;
const MIG: usize = 1 << 15;

/// An `nvmlDevice_t`, `nvmlGpuInstance_t` or `nvmlComputeInstance_t`: kind, board position,
/// and for MIG the instance IDs.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle(*mut c_void);

impl Handle {
    fn new(kind: usize, position: usize, rest: usize) -> Self {
        Self(std::ptr::without_provenance_mut(
            kind | position << 16 | rest,
        ))
    }

    fn parts(self, kind: usize) -> Result<(usize, usize), Status> {
        let number = self.0.addr();
        if number & !0xffff_ffff != kind {
            return Err(Status::INVALID_ARGUMENT);
        }
        Ok(((number >> 16) & 0xffff, number & 0xffff))
    }

    pub(super) fn gpu(gpu: &Gpu) -> Self {
        Self::new(DEVICE, gpu.position, 0)
    }

    pub(super) fn mig(gpu: &Gpu, mig: &Mig) -> Self {
        Self::new(DEVICE, gpu.position, MIG | ids(mig.gi, mig.ci))
    }

    pub(super) fn gpu_instance(gpu: &Gpu, gi: u32) -> Self {
        Self::new(GPU_INSTANCE, gpu.position, ids(gi, 0))
    }

    pub(super) fn compute_instance(gpu: &Gpu, gi: u32, ci: u32) -> Self {
        Self::new(COMPUTE_INSTANCE, gpu.position, ids(gi, ci))
    }

    /// The handle as NVML's structs have it.
    pub(super) fn raw<T>(self) -> *mut T {
        self.0.cast()
    }

    /// Board position of the device that it is about.
    pub(super) fn position(self) -> Option<usize> {
        let kinds = [DEVICE, GPU_INSTANCE, COMPUTE_INSTANCE];
        kinds
            .iter()
            .find_map(|&kind| self.parts(kind).ok())
            .map(|parts| parts.0)
    }

    /// The device or MIG device.
    pub(super) fn target(self, board: &Board) -> Result<Target<'_>, Status> {
        let (position, rest) = self.parts(DEVICE)?;
        let (index, gpu) = find(board, position)?;
        let mig = if rest & MIG == 0 {
            None
        } else {
            let found = gpu.mig.iter().find(|mig| MIG | ids(mig.gi, mig.ci) == rest);
            Some(found.ok_or(Status::INVALID_ARGUMENT)?)
        };
        Ok(Target {
            board,
            gpu,
            index,
            mig,
        })
    }

    /// The device and the MIG devices of a GPU instance.
    pub(super) fn instance(self, board: &Board) -> Result<(&Gpu, Vec<&Mig>), Status> {
        let (position, rest) = self.parts(GPU_INSTANCE)?;
        let (_, gpu) = find(board, position)?;
        let migs: Vec<&Mig> = gpu
            .mig
            .iter()
            .filter(|mig| ids(mig.gi, 0) == rest)
            .collect();
        if migs.is_empty() {
            Err(Status::INVALID_ARGUMENT)
        } else {
            Ok((gpu, migs))
        }
    }

    /// The device and the MIG device of a compute instance.
    pub(super) fn compute(self, board: &Board) -> Result<(&Gpu, &Mig), Status> {
        let (position, rest) = self.parts(COMPUTE_INSTANCE)?;
        let (_, gpu) = find(board, position)?;
        let mig = gpu.mig.iter().find(|mig| ids(mig.gi, mig.ci) == rest);
        Ok((gpu, mig.ok_or(Status::INVALID_ARGUMENT)?))
    }
}

fn ids(gi: u32, ci: u32) -> usize {
    (gi as usize) << 8 | (ci as usize) << 4
}

/// A device that a caller still has a handle of but that is gone is a lost one.
fn find(board: &Board, position: usize) -> Result<(usize, &Gpu), Status> {
    let mut all = board.gpus.iter().enumerate();
    let found = all.find(|(_, gpu)| gpu.position == position);
    let (index, gpu) = found.ok_or(Status::GPU_IS_LOST)?;
    if gpu.lost == Some(true) {
        Err(Status::GPU_IS_LOST)
    } else {
        Ok((index, gpu))
    }
}
