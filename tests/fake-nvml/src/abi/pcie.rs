//! The PCIe link.

use std::ffi::c_uint;

use super::entry::Target;
use super::exports;
use super::out::{Out, Supported as _};
use crate::scenario::Pcie;
use crate::status::Status;

exports! {
    any [nvmlDeviceGetCurrPcieLinkGeneration] (t; generation: Out<c_uint>) => {
        generation.set(link(t)?.generation.supported()?)
    }

    any [nvmlDeviceGetCurrPcieLinkWidth] (t; width: Out<c_uint>) => {
        width.set(link(t)?.width.supported()?)
    }

    any [nvmlDeviceGetMaxPcieLinkGeneration, nvmlDeviceGetGpuMaxPcieLinkGeneration]
        (t; generation: Out<c_uint>) => {
        generation.set(link(t)?.max_generation.supported()?)
    }

    any [nvmlDeviceGetMaxPcieLinkWidth] (t; width: Out<c_uint>) => {
        width.set(link(t)?.max_width.supported()?)
    }

    device [nvmlDeviceGetPcieSpeed] (t; speed: Out<c_uint>) => {
        speed.set(megabits(link(t)?.generation.supported()?))
    }

    // NVML numbers the highest speed like the generations.
    device [nvmlDeviceGetPcieLinkMaxSpeed] (t; speed: Out<c_uint>) => {
        speed.set(link(t)?.max_generation.supported()?)
    }

    device [nvmlDeviceGetPcieReplayCounter] (t; replays: Out<c_uint>) => {
        replays.set(link(t)?.replays.supported()?)
    }

    device [nvmlDeviceGetPcieThroughput] (t; counter: c_uint, rate: Out<c_uint>) => {
        let link = link(t)?;
        match counter {
            0 => rate.set(link.tx_kb_per_s.supported()?),
            1 => rate.set(link.rx_kb_per_s.supported()?),
            _ => Err(Status::INVALID_ARGUMENT),
        }
    }
}

pub(super) fn link<'a>(t: &'a Target<'_>) -> Result<&'a Pcie, Status> {
    t.gpu.pcie.as_ref().supported()
}

/// Megabits per second of one lane, counted as NVML counts them.
fn megabits(generation: u32) -> u32 {
    match generation {
        0 => 0,
        1 => 2_500,
        2 => 5_000,
        more => 1_000 << more,
    }
}
