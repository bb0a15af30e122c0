//! Field values: many figures in one call.

use std::ffi::{c_int, c_uint};

use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};

use super::ecc::{AGGREGATE, CORRECTED, UNCORRECTED, VOLATILE, modes, retired, rows, sites};
use super::entry::Target;
use super::exports;
use super::links::{error_count, is_active, nvlink, version_code};
use super::out::{Out, Supported as _, count_of};
use super::pcie::link;
use super::power::{energy_mj, limit_mw, limits_mw, milliwatts, usage_mw};
use crate::scenario::EccSites;
use crate::status::Status;

exports! {
    any [nvmlDeviceGetFieldValues] (t; count: c_int, values: Out<nvmlFieldValue_t>) => {
        let count = usize::try_from(count).map_err(|_| Status::INVALID_ARGUMENT)?;
        if count == 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        for number in 0..count {
            let place = values.at(number);
            let mut asked = place.get()?;
            asked.timestamp = i64::try_from(t.now()).unwrap_or(0);
            asked.latencyUsec = 1;
            match field(t, asked.fieldId, asked.scopeId) {
                Ok(Figure::Small(value)) => {
                    asked.nvmlReturn = Status::SUCCESS.0;
                    asked.valueType = 1;
                    asked.value = nvmlValue_t { ullVal: value.into() };
                }
                Ok(Figure::Large(value)) => {
                    asked.nvmlReturn = Status::SUCCESS.0;
                    asked.valueType = 3;
                    asked.value = nvmlValue_t { ullVal: value };
                }
                Err(status) => asked.nvmlReturn = status.0,
            }
            place.set(asked)?;
        }
        Ok(())
    }

    any [nvmlDeviceClearFieldValues] (_; _count: c_int, _values: Out<nvmlFieldValue_t>) => {
        Ok(())
    }
}

enum Figure {
    /// An unsigned int.
    Small(c_uint),
    /// An unsigned long long.
    Large(u64),
}

use Figure::{Large, Small};

/// One figure, by NVML's `NVML_FI_DEV_*`.
fn field(t: &Target<'_>, id: c_uint, scope: c_uint) -> Result<Figure, Status> {
    if t.mig.is_some() {
        return Err(Status::NOT_SUPPORTED);
    }
    Ok(match id {
        1 => Small(modes(t)?.0.into()),
        2 => Small(modes(t)?.1.into()),
        3..=28 => Large(ecc(t, id)?),
        29 => Small(count_of(retired(t, 0)?.len())),
        30 => Small(count_of(retired(t, 1)?.len())),
        31 | 92 | 93 => Small(t.retired_pages_pending.supported()?.into()),
        32..=59 | 96..=119 | 148..=160 => Large(link_errors(t, id)?),
        74..=79 => Large(super::clocks::violation_ns(t, id - 74)?),
        80 => Large(super::clocks::violation_ns(t, 10)?),
        81 => Large(super::clocks::violation_ns(t, 11)?),
        82 => Small(t.memory_temperature_c.supported()?),
        83 | 191 => Large(energy_mj(t)?),
        84..=90 | 132..=137 => Small(nvlink(t)?.speed_mb_per_s.supported()?),
        91 => Small(count_of(t.gpu.links.len())),
        94 => Small(link(t)?.replays.supported()?),
        95 => Small(0),
        138..=141 => {
            nvlink(t)?;
            Large(0)
        }
        142 => Small(rows(t)?.corrected),
        143 => Small(rows(t)?.uncorrected),
        144 => Small(rows(t)?.pending.into()),
        145 => Small(rows(t)?.failed.into()),
        147 => Small(switch_links(t)?),
        161 => Large(error_count(t, scope, 0)?),
        162 => Large(error_count(t, scope, 1)?),
        163 => Large(error_count(t, scope, 2)?),
        164 => {
            let active = is_active(t, scope)?;
            Small(if active {
                nvlink(t)?.speed_mb_per_s.supported()?
            } else {
                0
            })
        }
        165 => Small(is_active(t, scope)?.into()),
        166 => {
            is_active(t, scope)?;
            Small(version_code(nvlink(t)?.generation.supported()?))
        }
        170 => Small(t.c2c_links.supported()?),
        171 => Small(c2c_link(t, scope)?.into()),
        173..=183 => {
            link(t)?;
            Small(0)
        }
        185 | 186 => Small(usage_mw(t)?),
        187 => Small(limits_mw(t)?.0),
        188 => Small(limits_mw(t)?.1),
        189 => Small(milliwatts(t.power_default_limit_w)?),
        190 | 192 => Small(limit_mw(t)?),
        193 => Small(t.shutdown_c.supported()?),
        194 => Small(t.slowdown_c.supported()?),
        195 => Small(t.memory_max_c.supported()?),
        196 => Small(t.gpu_max_c.supported()?),
        // Sound links: nothing dropped, nothing wrong. Packets and bytes stand still.
        201..=222 => {
            is_active(t, scope)?;
            Large(0)
        }
        // Reset, or drain and reset, is needed.
        226 => Small((t.recovery_action.supported()? == 1).into()),
        227 => Small((t.recovery_action.supported()? == 4).into()),
        230 => Small(t.recovery_action.supported()?),
        251 | 252 => Large(super::clocks::violation_ns(t, 1)?),
        253 => Large(super::clocks::violation_ns(t, 3)?),
        274.. => return Err(Status::INVALID_ARGUMENT),
        _ => return Err(Status::NOT_SUPPORTED),
    })
}

/// The ECC fields: NVML numbers them by life time and place, corrected before uncorrected.
fn ecc(t: &Target<'_>, id: c_uint) -> Result<u64, Status> {
    let place = |sites: &EccSites, number: c_uint| match number {
        0 => sites.l1_cache,
        1 => sites.l2_cache,
        2 => sites.device_memory,
        3 => sites.register_file,
        _ => sites.texture_memory,
    };
    let outcome = |offset: c_uint| {
        if offset.is_multiple_of(2) {
            CORRECTED
        } else {
            UNCORRECTED
        }
    };
    match id {
        3 | 4 => Ok(sites(t, outcome(id - 3), VOLATILE)?.total()),
        5 | 6 => Ok(sites(t, outcome(id - 5), AGGREGATE)?.total()),
        7..=16 => Ok(place(&sites(t, outcome(id - 7), VOLATILE)?, (id - 7) / 2)),
        17 => Ok(sites(t, UNCORRECTED, VOLATILE)?.cbu),
        18..=27 => Ok(place(
            &sites(t, outcome(id - 18), AGGREGATE)?,
            (id - 18) / 2,
        )),
        28 => Ok(sites(t, UNCORRECTED, AGGREGATE)?.cbu),
        _ => Err(Status::INVALID_ARGUMENT),
    }
}

/// The NVLink error fields: six links and a total for each counter, then six more links.
fn link_errors(t: &Target<'_>, id: c_uint) -> Result<u64, Status> {
    const FLIT: c_uint = 2;
    const DATA: c_uint = 3;
    const REPLAY: c_uint = 0;
    const RECOVERY: c_uint = 1;
    const ECC: c_uint = 4;
    let (counter, number) = match id {
        32..=38 => (FLIT, id - 32),
        39..=45 => (DATA, id - 39),
        46..=52 => (REPLAY, id - 46),
        53..=59 => (RECOVERY, id - 53),
        96..=101 => (FLIT, id - 90),
        102..=107 => (DATA, id - 96),
        108..=113 => (REPLAY, id - 102),
        114..=119 => (RECOVERY, id - 108),
        _ => (ECC, id - 148),
    };
    let total = matches!(id, 38 | 45 | 52 | 59 | 160);
    nvlink(t)?;
    if total {
        (0..count_of(t.gpu.links.len()))
            .map(|link| error_count(t, link, counter))
            .sum()
    } else {
        error_count(t, number, counter)
    }
}

fn switch_links(t: &Target<'_>) -> Result<c_uint, Status> {
    nvlink(t)?;
    let switches = &t.board.nvswitches;
    Ok(count_of(
        t.gpu
            .links
            .iter()
            .filter(|to| switches.contains(to))
            .count(),
    ))
}

fn c2c_link(t: &Target<'_>, number: c_uint) -> Result<bool, Status> {
    if number < t.c2c_links.supported()? {
        Ok(true)
    } else {
        Err(Status::INVALID_ARGUMENT)
    }
}
