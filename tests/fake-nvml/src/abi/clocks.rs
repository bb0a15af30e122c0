//! Clocks, and why they are low.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlClkMonStatus_t, nvmlEnableState_t, nvmlPstates_t, nvmlViolationTime_t,
};

use super::entry::Target;
use super::exports;
use super::out::{Answer, Out, Supported as _, list};
use crate::status::Status;

pub(super) const GRAPHICS: c_uint = 0;
pub(super) const SM: c_uint = 1;
pub(super) const MEM: c_uint = 2;
pub(super) const VIDEO: c_uint = 3;

const ALL_REASONS: c_ulonglong = 0x1ff;
const SETTING: c_ulonglong = 0x2;

exports! {
    device [nvmlDeviceGetClockInfo] (t; kind: c_uint, clock: Out<c_uint>) => {
        clock.set(current_mhz(t, kind)?)
    }

    device [nvmlDeviceGetMaxClockInfo, nvmlDeviceGetMaxCustomerBoostClock]
        (t; kind: c_uint, clock: Out<c_uint>) => {
        clock.set(highest_mhz(t, kind)?)
    }

    device [nvmlDeviceGetApplicationsClock] (t; kind: c_uint, clock: Out<c_uint>) => {
        clock.set(application_mhz(t, kind)?)
    }

    device [nvmlDeviceGetDefaultApplicationsClock] (t; kind: c_uint, clock: Out<c_uint>) => {
        clock.set(default_mhz(t, kind)?)
    }

    device [nvmlDeviceGetClock] (t; kind: c_uint, which: c_uint, clock: Out<c_uint>) => {
        clock.set(match which {
            0 => current_mhz(t, kind)?,
            1 => application_mhz(t, kind)?,
            2 => default_mhz(t, kind)?,
            3 => highest_mhz(t, kind)?,
            _ => return Err(Status::INVALID_ARGUMENT),
        })
    }

    device [nvmlDeviceGetSupportedMemoryClocks] (t; count: Out<c_uint>, clocks: Out<c_uint>) => {
        let sets = t.clock_sets.as_ref().supported()?;
        let all: Vec<c_uint> = sets.iter().map(|set| set.mem_mhz).collect();
        list(count, clocks, &all)
    }

    device [nvmlDeviceGetSupportedGraphicsClocks]
        (t; memory: c_uint, count: Out<c_uint>, clocks: Out<c_uint>) => {
        let sets = t.clock_sets.as_ref().supported()?;
        let set = sets.iter().find(|set| set.mem_mhz == memory).ok_or(Status::NOT_FOUND)?;
        list(count, clocks, &set.graphics_mhz())
    }

    device [nvmlDeviceGetMinMaxClockOfPState]
        (t; kind: c_uint, state: c_uint, least: Out<c_uint>, most: Out<c_uint>) => {
        if state > 15 {
            return Err(Status::INVALID_ARGUMENT);
        }
        let (low, high) = range_mhz(t, kind)?;
        least.set(low)?;
        most.set(high)
    }

    any [nvmlDeviceGetAutoBoostedClocksEnabled]
        (_; _enabled: Out<nvmlEnableState_t>, _default: Out<nvmlEnableState_t>) => {
        // Gone since Pascal.
        Err(Status::NOT_SUPPORTED)
    }

    device [nvmlDeviceGetPerformanceState, nvmlDeviceGetPowerState]
        (t; state: Out<nvmlPstates_t>) => {
        state.set(t.performance_state.supported()?)
    }

    device [nvmlDeviceGetSupportedPerformanceStates]
        (t; states: Out<nvmlPstates_t>, size: c_uint) => {
        t.performance_state.supported()?;
        let room = size as usize / size_of::<nvmlPstates_t>();
        let mut all = vec![32; room];
        let first = all.first_mut().ok_or(Status::INSUFFICIENT_SIZE)?;
        *first = 0;
        states.fill(&all)
    }

    device [nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetCurrentClocksThrottleReasons]
        (t; reasons: Out<c_ulonglong>) => {
        let known = t.clock_event_reasons.as_ref().supported()?;
        let all = known.iter().fold(0, |all, reason| all | *reason as c_ulonglong);
        let set = t.settings();
        let limited = set.app_graphics_mhz.is_some() || set.locked_graphics_mhz.is_some();
        reasons.set(if limited { all | SETTING } else { all })
    }

    device [nvmlDeviceGetSupportedClocksEventReasons, nvmlDeviceGetSupportedClocksThrottleReasons]
        (t; reasons: Out<c_ulonglong>) => {
        t.clock_event_reasons.as_ref().supported()?;
        reasons.set(ALL_REASONS)
    }

    device [nvmlDeviceGetViolationStatus]
        (t; policy: c_uint, violation: Out<nvmlViolationTime_t>) => {
        let time = violation_ns(t, policy)?;
        violation.set(nvmlViolationTime_t {
            referenceTime: u64::try_from(t.now()).unwrap_or(0),
            violationTime: time,
        })
    }

    device [nvmlDeviceGetAdaptiveClockInfoStatus] (_; status: Out<c_uint>) => { status.set(1) }

    device [nvmlDeviceGetClkMonStatus] (_; status: Out<nvmlClkMonStatus_t>) => {
        let mut value = status.get()?;
        value.bGlobalStatus = 0;
        value.clkMonListSize = 0;
        status.set(value)
    }
}

fn sort(kind: c_uint) -> Answer {
    if kind <= VIDEO {
        Ok(())
    } else {
        Err(Status::INVALID_ARGUMENT)
    }
}

/// Lowest and highest clock of a kind.
fn range_mhz(t: &Target<'_>, kind: c_uint) -> Result<(c_uint, c_uint), Status> {
    sort(kind)?;
    let sets = t.clock_sets.as_ref().supported()?;
    let of_kind: Vec<c_uint> = match kind {
        MEM => sets.iter().map(|set| set.mem_mhz).collect(),
        VIDEO => t.max_video_mhz.into_iter().collect(),
        _ => sets
            .first()
            .map(|set| set.graphics_mhz())
            .unwrap_or_default(),
    };
    let least = of_kind.iter().min().copied().supported()?;
    Ok((least, of_kind.iter().max().copied().supported()?))
}

fn highest_mhz(t: &Target<'_>, kind: c_uint) -> Result<c_uint, Status> {
    range_mhz(t, kind).map(|range| range.1)
}

fn default_mhz(t: &Target<'_>, kind: c_uint) -> Result<c_uint, Status> {
    let given = match kind {
        GRAPHICS | SM => t.default_graphics_mhz,
        MEM => t.default_mem_mhz,
        VIDEO => return Err(Status::NOT_SUPPORTED),
        _ => return Err(Status::INVALID_ARGUMENT),
    };
    given.map_or_else(|| highest_mhz(t, kind), Ok)
}

fn application_mhz(t: &Target<'_>, kind: c_uint) -> Result<c_uint, Status> {
    let set = t.settings();
    let chosen = match kind {
        GRAPHICS | SM => set.app_graphics_mhz,
        MEM => set.app_mem_mhz,
        _ => None,
    };
    chosen.map_or_else(|| default_mhz(t, kind), Ok)
}

/// The clock now: the scenario's, held back by what is set.
pub(super) fn current_mhz(t: &Target<'_>, kind: c_uint) -> Result<c_uint, Status> {
    sort(kind)?;
    let set = t.settings();
    let (now, chosen, locked) = match kind {
        MEM => (t.mem_mhz, set.app_mem_mhz, set.locked_mem_mhz),
        VIDEO => (t.video_mhz, None, None),
        _ => (
            t.graphics_mhz,
            set.app_graphics_mhz,
            set.locked_graphics_mhz,
        ),
    };
    let mut clock = now.supported()?;
    if let Some(most) = chosen {
        clock = clock.min(most);
    }
    if let Some((least, most)) = locked {
        clock = clock.max(least).min(most);
    }
    Ok(clock)
}

/// Time lost to a limit since the driver was loaded, in ns.
pub(super) fn violation_ns(t: &Target<'_>, policy: c_uint) -> Result<u64, Status> {
    let all = t.violations.as_ref().supported()?;
    Ok(match policy {
        0 => all.power,
        1 => all.thermal,
        2 => all.sync_boost,
        3 => all.board_limit,
        4 => all.low_utilization,
        5 => all.reliability,
        10 => all.total_app_clocks,
        11 => all.total_base_clocks,
        _ => return Err(Status::INVALID_ARGUMENT),
    })
}
