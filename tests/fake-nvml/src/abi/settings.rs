//! What callers may set, apart from power limits.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlAccountingStats_t, nvmlEnableState_t, nvmlReturn_t};

use super::exports;
use super::out::{Out, Supported as _, list};
use crate::status::Status;

exports! {
    device [nvmlDeviceSetApplicationsClocks] (t; memory: c_uint, graphics: c_uint) => {
        let sets = t.clock_sets.as_ref().supported()?;
        // Slurm asks for clocks that the device has; NVML refuses others.
        let set = sets.iter().find(|set| set.mem_mhz == memory).ok_or(Status::INVALID_ARGUMENT)?;
        if !set.graphics_mhz().contains(&graphics) {
            return Err(Status::INVALID_ARGUMENT);
        }
        t.change(|settings| {
            settings.app_mem_mhz = Some(memory);
            settings.app_graphics_mhz = Some(graphics);
        })
    }

    device [nvmlDeviceResetApplicationsClocks] (t;) => {
        t.clock_sets.as_ref().supported()?;
        t.change(|settings| {
            settings.app_mem_mhz = None;
            settings.app_graphics_mhz = None;
        })
    }

    device [nvmlDeviceSetGpuLockedClocks] (t; least: c_uint, most: c_uint) => {
        t.clock_sets.as_ref().supported()?;
        if least > most {
            return Err(Status::INVALID_ARGUMENT);
        }
        t.change(|settings| settings.locked_graphics_mhz = Some((least, most)))
    }

    device [nvmlDeviceResetGpuLockedClocks] (t;) => {
        t.clock_sets.as_ref().supported()?;
        t.change(|settings| settings.locked_graphics_mhz = None)
    }

    device [nvmlDeviceSetMemoryLockedClocks] (t; least: c_uint, most: c_uint) => {
        t.clock_sets.as_ref().supported()?;
        if least > most {
            return Err(Status::INVALID_ARGUMENT);
        }
        t.change(|settings| settings.locked_mem_mhz = Some((least, most)))
    }

    device [nvmlDeviceResetMemoryLockedClocks] (t;) => {
        t.clock_sets.as_ref().supported()?;
        t.change(|settings| settings.locked_mem_mhz = None)
    }

    device [nvmlDeviceGetPersistenceMode] (t; mode: Out<nvmlEnableState_t>) => {
        mode.set(t.settings().persistence_mode.or(t.persistence_mode).supported()?.into())
    }

    device [nvmlDeviceSetPersistenceMode] (t; mode: nvmlEnableState_t) => {
        t.change(|settings| settings.persistence_mode = Some(mode != 0))
    }

    any [nvmlDeviceGetComputeMode] (t; mode: Out<c_uint>) => {
        mode.set(t.settings().compute_mode.or(t.compute_mode).supported()?)
    }

    device [nvmlDeviceSetComputeMode] (t; mode: c_uint) => {
        if mode > 3 {
            return Err(Status::INVALID_ARGUMENT);
        }
        t.change(|settings| settings.compute_mode = Some(mode))
    }

    device [nvmlDeviceSetEccMode] (t; mode: nvmlEnableState_t) => {
        t.ecc_mode.supported()?;
        t.change(|settings| settings.ecc_pending = Some(mode != 0))
    }

    // The device would have to be idle and reset: the new mode stays pending.
    device [nvmlDeviceSetMigMode] (t; mode: c_uint, activation: Out<nvmlReturn_t>) => {
        t.mig_profiles.as_ref().supported()?;
        if mode > 1 {
            return Err(Status::INVALID_ARGUMENT);
        }
        t.change(|settings| settings.mig_pending = Some(mode == 1))?;
        let done = (mode == 1) == t.mig_enabled();
        activation.set(if done { Status::SUCCESS.0 } else { Status::RESET_REQUIRED.0 })
    }

    device [nvmlDeviceGetAPIRestriction] (t; kind: c_uint, restricted: Out<nvmlEnableState_t>) => {
        let settings = t.settings();
        let state = match kind {
            0 => settings.restricted_application_clocks,
            1 => settings.restricted_auto_boost,
            _ => return Err(Status::INVALID_ARGUMENT),
        };
        restricted.set(state.unwrap_or(true).into())
    }

    device [nvmlDeviceSetAPIRestriction] (t; kind: c_uint, restricted: nvmlEnableState_t) => {
        match kind {
            0 => t.change(|settings| {
                settings.restricted_application_clocks = Some(restricted != 0);
            }),
            1 => t.change(|settings| settings.restricted_auto_boost = Some(restricted != 0)),
            _ => Err(Status::INVALID_ARGUMENT),
        }
    }

    device [nvmlDeviceGetAccountingMode] (t; mode: Out<nvmlEnableState_t>) => {
        mode.set(t.settings().accounting_mode.unwrap_or(false).into())
    }

    device [nvmlDeviceSetAccountingMode] (t; mode: nvmlEnableState_t) => {
        t.change(|settings| settings.accounting_mode = Some(mode != 0))
    }

    device [nvmlDeviceGetAccountingPids] (_; count: Out<c_uint>, pids: Out<c_uint>) => {
        list(count, pids, &[])
    }

    device [nvmlDeviceGetAccountingStats]
        (_; _pid: c_uint, _stats: Out<nvmlAccountingStats_t>) => {
        Err(Status::NOT_FOUND)
    }

    device [nvmlDeviceGetAccountingBufferSize] (_; size: Out<c_uint>) => { size.set(4000) }

    device [nvmlDeviceClearAccountingPids] (_;) => { Ok(()) }

    device [nvmlDeviceGetLastBBXFlushTime]
        (_; _time: Out<c_ulonglong>, _duration: Out<c_ulonglong>) => {
        Err(Status::NOT_SUPPORTED)
    }
}
