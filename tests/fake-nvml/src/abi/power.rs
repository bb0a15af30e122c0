//! Power and energy.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlEnableState_t, nvmlPowerValue_v2_t};

use super::entry::Target;
use super::exports;
use super::out::{Answer, Out, Supported as _};
use crate::status::Status;

exports! {
    device [nvmlDeviceGetPowerUsage] (t; power: Out<c_uint>) => { power.set(usage_mw(t)?) }

    device [nvmlDeviceGetTotalEnergyConsumption] (t; energy: Out<c_ulonglong>) => {
        energy.set(energy_mj(t)?)
    }

    device [nvmlDeviceGetPowerManagementMode] (t; mode: Out<nvmlEnableState_t>) => {
        limits_mw(t)?;
        mode.set(1)
    }

    device [nvmlDeviceGetPowerManagementLimit, nvmlDeviceGetEnforcedPowerLimit]
        (t; limit: Out<c_uint>) => {
        limit.set(limit_mw(t)?)
    }

    device [nvmlDeviceGetPowerManagementDefaultLimit] (t; limit: Out<c_uint>) => {
        limit.set(milliwatts(t.power_default_limit_w)?)
    }

    device [nvmlDeviceGetPowerManagementLimitConstraints]
        (t; least: Out<c_uint>, most: Out<c_uint>) => {
        let limits = limits_mw(t)?;
        least.set(limits.0)?;
        most.set(limits.1)
    }

    device [nvmlDeviceSetPowerManagementLimit] (t; limit: c_uint) => { set_limit(t, limit) }

    device [nvmlDeviceSetPowerManagementLimit_v2] (t; value: Out<nvmlPowerValue_v2_t>) => {
        set_limit(t, value.versioned(2)?.powerValueMw)
    }
}

/// Power now, in mW.
pub(super) fn usage_mw(t: &Target<'_>) -> Result<c_uint, Status> {
    Ok(t.gpu.power.as_ref().supported()?.milliwatts_at(t.now()))
}

/// The energy counter now, in mJ. Products before Volta had none, and so has a device without
/// power in the scenario.
pub(super) fn energy_mj(t: &Target<'_>) -> Result<u64, Status> {
    Ok(t.gpu.power.as_ref().supported()?.millijoules_at(t.now()))
}

/// The limit in force, in mW.
pub(super) fn limit_mw(t: &Target<'_>) -> Result<c_uint, Status> {
    match t.settings().power_limit_mw {
        Some(limit) => Ok(limit),
        None => milliwatts(t.power_limit_w.or(t.power_default_limit_w)),
    }
}

/// Lowest and highest limit, in mW.
pub(super) fn limits_mw(t: &Target<'_>) -> Result<(c_uint, c_uint), Status> {
    Ok((
        milliwatts(t.power_min_limit_w)?,
        milliwatts(t.power_max_limit_w)?,
    ))
}

fn set_limit(t: &Target<'_>, limit: c_uint) -> Answer {
    let (least, most) = limits_mw(t)?;
    if !(least..=most).contains(&limit) {
        return Err(Status::INVALID_ARGUMENT);
    }
    t.change(|settings| settings.power_limit_mw = Some(limit))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a board's power fits"
)]
pub(super) fn milliwatts(watts: Option<f64>) -> Result<c_uint, Status> {
    watts
        .map(|watts| (watts * 1e3).round() as c_uint)
        .supported()
}
