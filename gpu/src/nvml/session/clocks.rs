//! A GPU's applications clocks.

use std::ffi::c_uint;

use super::Device;
use crate::nvml::error::Error;
use crate::nvml::symbols::Call;

/// What an applications clock is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// Graphics.
    Graphics = 0,
    /// Memory.
    Memory = 2,
}

impl Device<'_> {
    /// Memory clocks in MHz that can be set, highest first.
    ///
    /// # Errors
    /// NVML's.
    pub fn supported_memory_clocks(&self) -> Result<Vec<u32>, Error> {
        let function = self.session.symbols.supported_memory_clocks()?;
        let mut clocks = Vec::new();
        let call = Call::DeviceGetSupportedMemoryClocks;
        self.session
            .list(call, self.index, 0, &mut clocks, |at, count| {
                // SAFETY: the handle is the session's; `list` hands room for `count` numbers.
                unsafe { function(self.handle.0, count, at) }
            })?;
        clocks.sort_unstable_by(|a, b| b.cmp(a));
        Ok(clocks)
    }

    /// Graphics clocks in MHz that can be set with a memory clock, highest first.
    ///
    /// # Errors
    /// NVML's.
    pub fn supported_graphics_clocks(&self, memory_mhz: u32) -> Result<Vec<u32>, Error> {
        let function = self.session.symbols.supported_graphics_clocks()?;
        let mut clocks = Vec::with_capacity(256);
        let call = Call::DeviceGetSupportedGraphicsClocks;
        self.session
            .list(call, self.index, 0, &mut clocks, |at, count| {
                // SAFETY: the handle is the session's; `list` hands room for `count` numbers.
                unsafe { function(self.handle.0, memory_mhz, count, at) }
            })?;
        clocks.sort_unstable_by(|a, b| b.cmp(a));
        Ok(clocks)
    }

    /// The applications clock in MHz that is set.
    ///
    /// # Errors
    /// NVML's.
    pub fn applications_clock(&self, clock: Clock) -> Result<u32, Error> {
        let function = self.session.symbols.applications_clock()?;
        let mut mhz = 0;
        self.call(Call::DeviceGetApplicationsClock, || {
            // SAFETY: the handle is the session's; NVML writes one unsigned int.
            unsafe { function(self.handle.0, clock as c_uint, &raw mut mhz) }
        })?;
        Ok(mhz)
    }

    /// Sets the applications clocks.
    ///
    /// # Errors
    /// NVML's.
    pub fn set_applications_clocks(&self, memory_mhz: u32, graphics_mhz: u32) -> Result<(), Error> {
        let function = self.session.symbols.set_applications_clocks()?;
        self.call(Call::DeviceSetApplicationsClocks, || {
            // SAFETY: the handle is the session's.
            unsafe { function(self.handle.0, memory_mhz, graphics_mhz) }
        })
    }

    /// Sets the applications clocks back to the hardware's default.
    ///
    /// # Errors
    /// NVML's.
    pub fn reset_applications_clocks(&self) -> Result<(), Error> {
        let function = self.session.symbols.reset_applications_clocks()?;
        self.call(Call::DeviceResetApplicationsClocks, || {
            // SAFETY: the handle is the session's.
            unsafe { function(self.handle.0) }
        })
    }
}
