//! Start, end, versions, and what a machine without units has to say about them.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlConfComputeSystemState_t, nvmlHwbcEntry_t, nvmlReturn_t, nvmlSystemDriverBranchInfo_t,
};

use super::out::{Out, Supported as _, array, list};
use super::{entry, exports};
use crate::status::Status;

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVML's name")]
extern "C" fn nvmlInit() -> nvmlReturn_t {
    entry::init("nvmlInit")
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVML's name")]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    entry::init("nvmlInit_v2")
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVML's name")]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    entry::init("nvmlInitWithFlags")
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVML's name")]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    entry::shutdown("nvmlShutdown")
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVML's name")]
extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    Status(result).text().as_ptr()
}

/// The calls above, which need no earlier `nvmlInit`.
pub(super) const FREE: &[&str] = &[
    "nvmlInit",
    "nvmlInit_v2",
    "nvmlInitWithFlags",
    "nvmlShutdown",
    "nvmlErrorString",
];

exports! {
    system [nvmlSystemGetDriverVersion] (board; version: Out<c_char>, length: c_uint) => {
        version.text(length, board.driver_version())
    }

    system [nvmlSystemGetNVMLVersion] (board; version: Out<c_char>, length: c_uint) => {
        version.text(length, board.scenario.nvml_version.as_deref().supported()?)
    }

    system [nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2]
        (board; version: Out<c_int>) => {
        version.set(board.scenario.cuda_driver_version.supported()?)
    }

    system [nvmlSystemGetProcessName] (_; pid: c_uint, name: Out<c_char>, length: c_uint) => {
        let command = std::fs::read(format!("/proc/{pid}/cmdline"));
        let command = command.map_err(|_| Status::NOT_FOUND)?;
        let first = command.split(|byte| *byte == 0).next().unwrap_or_default();
        // NVML cuts a name that is too long.
        let room = (length as usize).saturating_sub(1);
        let shown = String::from_utf8_lossy(first.get(..room).unwrap_or(first)).into_owned();
        name.text(length, &shown)
    }

    system [nvmlSystemGetDriverBranch]
        (board; info: Out<nvmlSystemDriverBranchInfo_t>, _length: c_uint) => {
        let mut value = info.versioned(1)?;
        let major = board.driver_version().split('.').next().unwrap_or_default();
        value.branch = array(&format!("r{major}_00"));
        info.set(value)
    }

    system [nvmlSystemGetHicVersion] (_; count: Out<c_uint>, entries: Out<nvmlHwbcEntry_t>) => {
        list(count, entries, &[])
    }

    system [nvmlUnitGetCount, nvmlGetExcludedDeviceCount] (_; count: Out<c_uint>) => {
        count.set(0)
    }

    system [nvmlUnitGetHandleByIndex, nvmlGetExcludedDeviceInfoByIndex]
        (_; _index: c_uint, _info: Out<c_uint>) => {
        Err(Status::INVALID_ARGUMENT)
    }

    system [nvmlSystemGetConfComputeState] (_; state: Out<nvmlConfComputeSystemState_t>) => {
        state.set(nvmlConfComputeSystemState_t { environment: 0, ccFeature: 0, devToolsMode: 0 })
    }
}
