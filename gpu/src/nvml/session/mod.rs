//! NVML initialised, and its GPUs.

mod clocks;
mod device;
mod links;
mod pci;
mod usage;

use std::ffi::{CString, c_char, c_uint};
use std::path::Path;
use std::sync::Arc;

use nvml_wrapper_sys::bindings::nvmlDevice_t;

use super::error::{Error, code};
use super::symbols::{Call, Symbols};
use super::trace::Trace;
use crate::pci::PciAddress;

pub use clocks::Clock;
pub use device::{Memory, MigMode};
pub use usage::{ProcessMemory, ProcessUtilization};

/// Room for every text that NVML hands out.
const TEXT: u32 = 96;
/// First size of lists whose length is not known before.
const FIRST_LIST: usize = 64;
/// A list that has not come after so many enlargements does not come.
const GROWTHS: usize = 8;

/// NVML initialised; dropping it shuts NVML down.
///
/// NVML counts initialisations, so sessions on several threads do not disturb each other.
pub struct Session {
    symbols: Symbols,
    trace: Arc<Trace>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// A GPU's or MIG device's handle, good as long as its session.
#[derive(Clone, Copy)]
pub(crate) struct Handle(nvmlDevice_t);

// SAFETY: the handle is an opaque token that NVML's documentation lets any thread use.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// One GPU, or one MIG device, within a session.
#[derive(Clone, Copy)]
pub struct Device<'s> {
    session: &'s Session,
    handle: Handle,
    index: Option<u32>,
}

impl std::fmt::Debug for Device<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Opens the library (`None`: the system's) and initialises NVML.
    ///
    /// # Errors
    /// The library cannot be opened, or NVML cannot be initialised.
    pub fn open(library: Option<&Path>, trace: &Arc<Trace>) -> Result<Self, Error> {
        trace.enter_load();
        let symbols = match library {
            None => Symbols::load(),
            Some(path) => Symbols::open(path),
        };
        trace.leave();
        Self::start(symbols?, trace)
    }

    /// Initialises NVML.
    ///
    /// # Errors
    /// NVML cannot be initialised.
    pub fn start(symbols: Symbols, trace: &Arc<Trace>) -> Result<Self, Error> {
        let init = symbols.init()?;
        trace.enter(Call::Init, None);
        // SAFETY: nvmlInit_v2 takes nothing and may be called at any time.
        let code = unsafe { init() };
        trace.leave();
        if code != code::SUCCESS {
            return Err(Error::Nvml {
                call: Call::Init.name(),
                device: None,
                code,
            });
        }
        Ok(Self {
            symbols,
            trace: Arc::clone(trace),
        })
    }

    /// From now on calls are noted in another trace: the session moves to another thread.
    pub fn set_trace(&mut self, trace: &Arc<Trace>) {
        self.trace = Arc::clone(trace);
    }

    /// The library.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Version of the driver.
    ///
    /// # Errors
    /// NVML's.
    pub fn driver_version(&self) -> Result<String, Error> {
        let function = self.symbols.driver_version()?;
        // SAFETY: `text` hands a buffer of that size.
        self.text(Call::SystemGetDriverVersion, None, |at, size| unsafe {
            function(at, size)
        })
    }

    /// Version of the NVML library.
    ///
    /// # Errors
    /// NVML's.
    pub fn nvml_version(&self) -> Result<String, Error> {
        let function = self.symbols.nvml_version()?;
        // SAFETY: `text` hands a buffer of that size.
        self.text(Call::SystemGetNvmlVersion, None, |at, size| unsafe {
            function(at, size)
        })
    }

    /// How many GPUs there are.
    ///
    /// # Errors
    /// NVML's.
    pub fn device_count(&self) -> Result<u32, Error> {
        let function = self.symbols.device_count()?;
        let mut count = 0;
        // SAFETY: NVML writes one unsigned int.
        self.call(Call::DeviceGetCount, None, || unsafe {
            function(&raw mut count)
        })?;
        Ok(count)
    }

    /// The GPU of an NVML index.
    ///
    /// # Errors
    /// NVML's.
    pub fn device_by_index(&self, index: u32) -> Result<Device<'_>, Error> {
        let function = self.symbols.by_index()?;
        let mut handle = std::ptr::null_mut();
        self.call(Call::DeviceGetHandleByIndex, Some(index), || {
            // SAFETY: NVML writes one handle.
            unsafe { function(index, &raw mut handle) }
        })?;
        Ok(self.device(Handle(handle), Some(index)))
    }

    /// The GPU or MIG device of a UUID.
    ///
    /// # Errors
    /// NVML's.
    pub fn device_by_uuid(&self, uuid: &str) -> Result<Device<'_>, Error> {
        self.device_by_text(Call::DeviceGetHandleByUuid, self.symbols.by_uuid()?, uuid)
    }

    /// The GPU of a PCI address.
    ///
    /// # Errors
    /// NVML's.
    pub fn device_by_pci(&self, pci: &PciAddress) -> Result<Device<'_>, Error> {
        let call = Call::DeviceGetHandleByPciBusId;
        self.device_by_text(call, self.symbols.by_pci()?, &pci.to_nvml_string())
    }

    fn device_by_text(
        &self,
        call: Call,
        function: unsafe extern "C" fn(*const c_char, *mut nvmlDevice_t) -> c_uint,
        text: &str,
    ) -> Result<Device<'_>, Error> {
        let Ok(text) = CString::new(text) else {
            let what = format!("{text:?} has a NUL in it");
            return Err(Error::Malformed {
                call: call.name(),
                device: None,
                what,
            });
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: NVML reads a C string, which outlives the call, and writes one handle.
        self.call(call, None, || unsafe {
            function(text.as_ptr(), &raw mut handle)
        })?;
        Ok(self.device(Handle(handle), None))
    }

    pub(crate) fn device(&self, handle: Handle, index: Option<u32>) -> Device<'_> {
        Device {
            session: self,
            handle,
            index,
        }
    }

    fn call(
        &self,
        call: Call,
        device: Option<u32>,
        function: impl FnOnce() -> c_uint,
    ) -> Result<(), Error> {
        self.trace.enter(call, device);
        let code = function();
        self.trace.leave();
        if code == code::SUCCESS {
            Ok(())
        } else {
            Err(Error::Nvml {
                call: call.name(),
                device,
                code,
            })
        }
    }

    fn text(
        &self,
        call: Call,
        device: Option<u32>,
        function: impl FnOnce(*mut c_char, c_uint) -> c_uint,
    ) -> Result<String, Error> {
        let mut buffer: [c_char; TEXT as usize] = [0; TEXT as usize];
        self.call(call, device, || function(buffer.as_mut_ptr(), TEXT))?;
        Ok(string(&buffer))
    }

    /// A list whose length NVML tells when the buffer is too small.
    fn list<T: Copy>(
        &self,
        call: Call,
        device: Option<u32>,
        blank: T,
        buffer: &mut Vec<T>,
        mut function: impl FnMut(*mut T, *mut c_uint) -> c_uint,
    ) -> Result<(), Error> {
        let mut room = buffer.capacity().max(FIRST_LIST);
        let mut result = Ok(());
        for _ in 0..GROWTHS {
            buffer.clear();
            buffer.resize(room, blank);
            let mut count = c_uint::try_from(room).unwrap_or(c_uint::MAX);
            result = self.call(call, device, || {
                function(buffer.as_mut_ptr(), &raw mut count)
            });
            match &result {
                Ok(()) => {
                    buffer.truncate(count as usize);
                    return Ok(());
                }
                Err(error) if error.code() == Some(code::INSUFFICIENT_SIZE) => {
                    // Some more than it asks for: others may join before the next call.
                    let asked = (count as usize).min(1 << 20);
                    room = room.saturating_mul(2).max(asked.saturating_add(16));
                }
                Err(_) => break,
            }
        }
        buffer.clear();
        result
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Ok(shutdown) = self.symbols.shutdown() {
            // SAFETY: pairs with the nvmlInit of `start`.
            let _ = self.call(Call::Shutdown, None, || unsafe { shutdown() });
        }
    }
}

/// What NVML wrote into a text buffer.
#[allow(clippy::cast_sign_loss)]
fn string(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer
        .iter()
        .take_while(|byte| **byte != 0)
        .map(|byte| *byte as u8)
        .collect();
    String::from_utf8(bytes).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into())
}
