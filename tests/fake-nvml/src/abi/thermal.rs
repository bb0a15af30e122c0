//! Temperatures and fans.

use std::ffi::{c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlGpuThermalSettings_t, nvmlMarginTemperature_t, nvmlTemperature_t,
};

use super::entry::Target;
use super::exports;
use super::out::{Answer, Out, Supported as _};
use crate::status::Status;

exports! {
    device [nvmlDeviceGetTemperature] (t; sensor: c_uint, temperature: Out<c_uint>) => {
        if sensor != 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        temperature.set(t.temperature_c.supported()?)
    }

    device [nvmlDeviceGetTemperatureV] (t; temperature: Out<nvmlTemperature_t>) => {
        let mut value = temperature.versioned(1)?;
        if value.sensorType != 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        value.temperature = signed(t.temperature_c.supported()?);
        temperature.set(value)
    }

    device [nvmlDeviceGetTemperatureThreshold] (t; kind: c_uint, limit: Out<c_uint>) => {
        let value = match kind {
            0 => t.shutdown_c,
            1 => t.slowdown_c,
            2 => t.memory_max_c,
            3 => t.gpu_max_c,
            4..=7 => None,
            _ => return Err(Status::INVALID_ARGUMENT),
        };
        limit.set(value.supported()?)
    }

    device [nvmlDeviceGetMarginTemperature] (t; margin: Out<nvmlMarginTemperature_t>) => {
        let mut value = margin.versioned(1)?;
        let limit = t.slowdown_c.supported()?;
        value.marginTemperature = signed(limit) - signed(t.temperature_c.supported()?);
        margin.set(value)
    }

    device [nvmlDeviceGetThermalSettings]
        (t; _sensor: c_uint, thermal: Out<nvmlGpuThermalSettings_t>) => {
        let mut value = thermal.get()?;
        value.count = 1;
        value.sensor[0].currentTemp = signed(t.temperature_c.supported()?);
        value.sensor[0].defaultMinTemp = 0;
        value.sensor[0].defaultMaxTemp = signed(t.slowdown_c.unwrap_or(0));
        value.sensor[0].controller = 1;
        value.sensor[0].target = 1;
        thermal.set(value)
    }

    device [nvmlDeviceGetNumFans] (t; fans: Out<c_uint>) => {
        fans.set(t.fan_percent.is_some().into())
    }

    device [nvmlDeviceGetFanSpeed] (t; speed: Out<c_uint>) => { fan(t, 0, speed) }

    device [nvmlDeviceGetFanSpeed_v2, nvmlDeviceGetTargetFanSpeed]
        (t; number: c_uint, speed: Out<c_uint>) => {
        fan(t, number, speed)
    }

    device [nvmlDeviceGetMinMaxFanSpeed] (t; least: Out<c_uint>, most: Out<c_uint>) => {
        t.fan_percent.supported()?;
        least.set(30)?;
        most.set(100)
    }
}

fn fan(t: &Target<'_>, number: c_uint, speed: Out<c_uint>) -> Answer {
    let percent = t.fan_percent.supported()?;
    if number == 0 {
        speed.set(percent)
    } else {
        Err(Status::INVALID_ARGUMENT)
    }
}

fn signed(value: c_uint) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}
