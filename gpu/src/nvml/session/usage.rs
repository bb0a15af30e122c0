//! What is used of a GPU: processes, utilisation, energy.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlProcessInfo_v2_t, nvmlProcessUtilizationSample_t,
};

use super::Device;
use crate::nvml::error::{Error, code};
use crate::nvml::symbols::Call;

/// "No value" in 32 and 64 bits.
const NONE_32: u32 = u32::MAX;
const NONE_64: u64 = u64::MAX;

/// Memory of one process on one GPU or MIG device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Process id.
    pub pid: u32,
    /// Memory in bytes; `None` when NVML does not say.
    pub bytes: Option<u64>,
    /// GPU and compute instance, on MIG.
    pub mig: Option<(u32, u32)>,
}

/// One utilisation sample of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUtilization {
    /// Process id.
    pub pid: u32,
    /// When, in microseconds since the epoch.
    pub timestamp_us: u64,
    /// SM utilisation in percent.
    pub sm: u32,
    /// Memory utilisation in percent.
    pub memory: u32,
}

impl Device<'_> {
    /// Processes that compute, into `buffer`.
    ///
    /// # Errors
    /// NVML's.
    pub fn compute_processes(&self, buffer: &mut Vec<ProcessMemory>) -> Result<(), Error> {
        let function = self.session.symbols.compute_processes()?;
        self.processes(Call::DeviceGetComputeRunningProcesses, function, buffer)
    }

    /// Processes that draw, into `buffer`. A process that does both is in both lists, with the
    /// same memory.
    ///
    /// # Errors
    /// NVML's.
    pub fn graphics_processes(&self, buffer: &mut Vec<ProcessMemory>) -> Result<(), Error> {
        let function = self.session.symbols.graphics_processes()?;
        self.processes(Call::DeviceGetGraphicsRunningProcesses, function, buffer)
    }

    fn processes(
        &self,
        call: Call,
        function: unsafe extern "C" fn(
            nvmlDevice_t,
            *mut c_uint,
            *mut nvmlProcessInfo_v2_t,
        ) -> c_uint,
        buffer: &mut Vec<ProcessMemory>,
    ) -> Result<(), Error> {
        buffer.clear();
        let blank = nvmlProcessInfo_v2_t {
            pid: 0,
            usedGpuMemory: 0,
            gpuInstanceId: NONE_32,
            computeInstanceId: NONE_32,
        };
        let mut records = Vec::new();
        self.session
            .list(call, self.index, blank, &mut records, |at, count| {
                // SAFETY: the handle is the session's; `list` hands room for as many records as
                // `count` says; versions 2 and 3 of the function have the same record.
                unsafe { function(self.handle.0, count, at) }
            })?;
        buffer.extend(records.iter().map(|record| {
            ProcessMemory {
                pid: record.pid,
                bytes: (record.usedGpuMemory != NONE_64).then_some(record.usedGpuMemory),
                mig: (record.gpuInstanceId != NONE_32 && record.computeInstanceId != NONE_32)
                    .then_some((record.gpuInstanceId, record.computeInstanceId)),
            }
        }));
        Ok(())
    }

    /// Utilisation samples of processes after `since_us` (microseconds since the epoch), into
    /// `buffer`. None at all is no error.
    ///
    /// # Errors
    /// NVML's.
    pub fn process_utilization(
        &self,
        since_us: u64,
        buffer: &mut Vec<ProcessUtilization>,
    ) -> Result<(), Error> {
        buffer.clear();
        let function = self.session.symbols.process_utilization()?;
        let blank = nvmlProcessUtilizationSample_t {
            pid: 0,
            timeStamp: 0,
            smUtil: 0,
            memUtil: 0,
            encUtil: 0,
            decUtil: 0,
        };
        let mut records = Vec::new();
        let call = Call::DeviceGetProcessUtilization;
        let found = self
            .session
            .list(call, self.index, blank, &mut records, |at, count| {
                // SAFETY: the handle is the session's; `list` hands room for as many records as
                // `count` says.
                unsafe { function(self.handle.0, at, count, since_us) }
            });
        match found {
            Err(error) if error.code() != Some(code::NOT_FOUND) => return Err(error),
            _ => {}
        }
        buffer.extend(
            records
                .iter()
                .filter(|record| record.timeStamp > since_us)
                .map(|record| ProcessUtilization {
                    pid: record.pid,
                    timestamp_us: record.timeStamp,
                    sm: record.smUtil,
                    memory: record.memUtil,
                }),
        );
        Ok(())
    }

    /// Energy since the driver was loaded, in mJ.
    ///
    /// # Errors
    /// NVML's.
    pub fn total_energy_mj(&self) -> Result<u64, Error> {
        let function = self.session.symbols.total_energy()?;
        let mut energy = 0;
        self.call(Call::DeviceGetTotalEnergyConsumption, || {
            // SAFETY: the handle is the session's; NVML writes one unsigned long long.
            unsafe { function(self.handle.0, &raw mut energy) }
        })?;
        Ok(energy)
    }

    /// Power in mW.
    ///
    /// # Errors
    /// NVML's.
    pub fn power_mw(&self) -> Result<u32, Error> {
        let function = self.session.symbols.power_usage()?;
        self.number(Call::DeviceGetPowerUsage, function)
    }
}
