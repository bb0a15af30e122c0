//! NVML initialised, and its GPUs.

use std::ffi::{CString, c_char, c_uint, c_ulong};
use std::path::Path;
use std::sync::Arc;

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlDeviceAttributes_t, nvmlMemory_t, nvmlPciInfo_t, nvmlProcessInfo_v2_t,
    nvmlProcessUtilizationSample_t,
};

use super::error::{Error, code};
use super::symbols::{Call, Symbols};
use super::worker::Trace;
use crate::cpuset::CpuSet;
use crate::model::{MigAttributes, NvLink, RemoteEnd};
use crate::pci::PciAddress;

/// Room for every text that NVML hands out.
const TEXT: u32 = 96;
/// Words of an affinity mask: 8192 CPUs on 64 bits, more than the kernel can be built for.
const MASK_WORDS: u32 = 128;
/// First size of lists whose length is not known before.
const FIRST_LIST: usize = 64;
/// A list that has not come after so many enlargements does not come.
const GROWTHS: usize = 8;
/// "No value" in 32 and 64 bits.
const NONE_32: u32 = u32::MAX;
const NONE_64: u64 = u64::MAX;

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

/// Memory of a GPU in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// Not in use.
    pub free: u64,
    /// In use.
    pub used: u64,
}

/// MIG mode of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigMode {
    /// In force now.
    pub current: bool,
    /// In force after the next reset of the GPU.
    pub pending: bool,
}

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

/// What an applications clock is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// Graphics.
    Graphics = 0,
    /// Memory.
    Memory = 2,
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

/// The address in NVML's PCI record: its text, which alone has the function, else its numbers.
#[allow(clippy::cast_sign_loss)]
fn address(record: &nvmlPciInfo_t) -> Option<PciAddress> {
    let mut bytes = [0u8; 32];
    let mut length = 0usize;
    for (to, from) in bytes
        .iter_mut()
        .zip(&record.busId)
        .take_while(|(_, from)| **from != 0)
    {
        *to = *from as u8;
        length = length.saturating_add(1);
    }
    let text = bytes.get(..length)?;
    if !text.is_empty() {
        return PciAddress::parse_bytes(text);
    }
    let (bus, device) = (
        u8::try_from(record.bus).ok()?,
        u8::try_from(record.device).ok()?,
    );
    PciAddress::new(record.domain, bus, device, 0)
}

impl<'s> Device<'s> {
    /// NVML index, when the device was found by it.
    #[must_use]
    pub fn index(&self) -> Option<u32> {
        self.index
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Asks NVML for its index.
    ///
    /// # Errors
    /// NVML's.
    pub fn ask_index(&self) -> Result<u32, Error> {
        let function = self.session.symbols.index()?;
        self.number(Call::DeviceGetIndex, function)
    }

    /// Name, as `NVIDIA H100 80GB HBM3`.
    ///
    /// # Errors
    /// NVML's.
    pub fn name(&self) -> Result<String, Error> {
        let function = self.session.symbols.name()?;
        self.session
            .text(Call::DeviceGetName, self.index, |at, size| {
                // SAFETY: the handle is the session's; `text` hands a buffer of that size.
                unsafe { function(self.handle.0, at, size) }
            })
    }

    /// UUID, as `GPU-…` or `MIG-…`.
    ///
    /// # Errors
    /// NVML's.
    pub fn uuid(&self) -> Result<String, Error> {
        let function = self.session.symbols.uuid()?;
        self.session
            .text(Call::DeviceGetUuid, self.index, |at, size| {
                // SAFETY: the handle is the session's; `text` hands a buffer of that size.
                unsafe { function(self.handle.0, at, size) }
            })
    }

    /// PCI address.
    ///
    /// # Errors
    /// NVML's, or it gives no address.
    pub fn pci(&self) -> Result<PciAddress, Error> {
        let function = self.session.symbols.pci_info()?;
        let mut record = blank_pci();
        self.call(Call::DeviceGetPciInfo, || {
            // SAFETY: the handle is the session's; NVML writes one record, of which older
            // versions of the function know the first part only.
            unsafe { function(self.handle.0, &raw mut record) }
        })?;
        address(&record).ok_or_else(|| self.malformed(Call::DeviceGetPciInfo, "no PCI address"))
    }

    /// N of `/dev/nvidiaN`.
    ///
    /// # Errors
    /// NVML's.
    pub fn minor(&self) -> Result<u32, Error> {
        let function = self.session.symbols.minor_number()?;
        self.number(Call::DeviceGetMinorNumber, function)
    }

    /// Memory.
    ///
    /// # Errors
    /// NVML's.
    pub fn memory(&self) -> Result<Memory, Error> {
        let function = self.session.symbols.memory_info()?;
        let mut record = nvmlMemory_t {
            total: 0,
            free: 0,
            used: 0,
        };
        self.call(Call::DeviceGetMemoryInfo, || {
            // SAFETY: the handle is the session's; NVML writes one record.
            unsafe { function(self.handle.0, &raw mut record) }
        })?;
        Ok(Memory {
            total: record.total,
            free: record.free,
            used: record.used,
        })
    }

    /// CPUs near the GPU.
    ///
    /// # Errors
    /// NVML's.
    pub fn cpu_affinity(&self) -> Result<CpuSet, Error> {
        let function = self.session.symbols.cpu_affinity()?;
        let mut mask: [c_ulong; MASK_WORDS as usize] = [0; MASK_WORDS as usize];
        self.call(Call::DeviceGetCpuAffinity, || {
            // SAFETY: the handle is the session's; NVML writes as many words as it is told.
            unsafe { function(self.handle.0, MASK_WORDS, mask.as_mut_ptr()) }
        })?;
        Ok(CpuSet::from_nvml_mask(&mask))
    }

    /// MIG mode now and after the next reset.
    ///
    /// # Errors
    /// NVML's.
    pub fn mig_mode(&self) -> Result<MigMode, Error> {
        let function = self.session.symbols.mig_mode()?;
        let (mut current, mut pending) = (0, 0);
        self.call(Call::DeviceGetMigMode, || {
            // SAFETY: the handle is the session's; NVML writes two unsigned ints.
            unsafe { function(self.handle.0, &raw mut current, &raw mut pending) }
        })?;
        Ok(MigMode {
            current: current == 1,
            pending: pending == 1,
        })
    }

    /// Highest number of MIG devices that the GPU can have.
    ///
    /// # Errors
    /// NVML's.
    pub fn max_mig_devices(&self) -> Result<u32, Error> {
        let function = self.session.symbols.max_mig_devices()?;
        self.number(Call::DeviceGetMaxMigDeviceCount, function)
    }

    /// The MIG device of an index within this GPU; `None` when there is none.
    ///
    /// # Errors
    /// NVML's.
    pub fn mig_device(&self, index: u32) -> Result<Option<Device<'s>>, Error> {
        let function = self.session.symbols.mig_by_index()?;
        let mut handle = std::ptr::null_mut();
        let found = self.call(Call::DeviceGetMigDeviceHandleByIndex, || {
            // SAFETY: the handle is the session's; NVML writes one handle.
            unsafe { function(self.handle.0, index, &raw mut handle) }
        });
        match found {
            Ok(()) => Ok(Some(self.session.device(Handle(handle), self.index))),
            Err(error) if error.code() == Some(code::NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// GPU instance id of a MIG device.
    ///
    /// # Errors
    /// NVML's.
    pub fn gpu_instance_id(&self) -> Result<u32, Error> {
        let function = self.session.symbols.gpu_instance_id()?;
        self.number(Call::DeviceGetGpuInstanceId, function)
    }

    /// Compute instance id of a MIG device.
    ///
    /// # Errors
    /// NVML's.
    pub fn compute_instance_id(&self) -> Result<u32, Error> {
        let function = self.session.symbols.compute_instance_id()?;
        self.number(Call::DeviceGetComputeInstanceId, function)
    }

    /// What a MIG device is made of.
    ///
    /// # Errors
    /// NVML's.
    pub fn attributes(&self) -> Result<MigAttributes, Error> {
        let function = self.session.symbols.attributes()?;
        let mut record = nvmlDeviceAttributes_t {
            multiprocessorCount: 0,
            sharedCopyEngineCount: 0,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
            gpuInstanceSliceCount: 0,
            computeInstanceSliceCount: 0,
            memorySizeMB: 0,
        };
        self.call(Call::DeviceGetAttributes, || {
            // SAFETY: the handle is the session's; NVML writes one record, the same in both
            // versions of the function.
            unsafe { function(self.handle.0, &raw mut record) }
        })?;
        Ok(MigAttributes {
            gpu_slices: record.gpuInstanceSliceCount,
            compute_slices: record.computeInstanceSliceCount,
            memory_mib: record.memorySizeMB,
        })
    }

    /// Is an NVLink up? NVML answers "Invalid Argument" for a link that the GPU lacks and "Not
    /// Supported" on a board without NVLink.
    ///
    /// # Errors
    /// NVML's.
    pub fn nvlink_active(&self, link: u32) -> Result<bool, Error> {
        let function = self.session.symbols.nvlink_state()?;
        let mut state = 0;
        self.call(Call::DeviceGetNvLinkState, || {
            // SAFETY: the handle is the session's; NVML writes one enum of unsigned int's size.
            unsafe { function(self.handle.0, link, &raw mut state) }
        })?;
        Ok(state == 1)
    }

    /// Address of an NVLink's far end; `None` when NVML gives none that means anything.
    ///
    /// # Errors
    /// NVML's.
    pub fn nvlink_remote_pci(&self, link: u32) -> Result<Option<PciAddress>, Error> {
        let function = self.session.symbols.nvlink_remote_pci()?;
        let mut record = blank_pci();
        self.call(Call::DeviceGetNvLinkRemotePciInfo, || {
            // SAFETY: the handle is the session's; NVML writes one record, of which the older
            // version of the function knows the first part only.
            unsafe { function(self.handle.0, link, &raw mut record) }
        })?;
        let nowhere = PciAddress {
            domain: 0,
            bus: 0,
            device: 0,
            function: 0,
        };
        Ok(address(&record).filter(|address| *address != nowhere))
    }

    /// What an NVLink leads to, `address` being where it does; `None` when NVML does not know.
    ///
    /// # Errors
    /// NVML's.
    pub fn nvlink_remote_end(
        &self,
        link: u32,
        address: Option<PciAddress>,
    ) -> Result<Option<RemoteEnd>, Error> {
        let function = self.session.symbols.nvlink_remote_type()?;
        let mut kind = NONE_32;
        self.call(Call::DeviceGetNvLinkRemoteDeviceType, || {
            // SAFETY: the handle is the session's; NVML writes one enum of unsigned int's size.
            unsafe { function(self.handle.0, link, &raw mut kind) }
        })?;
        Ok(match (kind, address) {
            (0, Some(address)) => Some(RemoteEnd::Gpu(address)),
            (1, _) => Some(RemoteEnd::Cpu),
            (2, address) => Some(RemoteEnd::Switch(address)),
            _ => None,
        })
    }

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

    /// The GPU's NVLinks, those that exist; `remote_end` says what a link that is up leads to.
    pub(crate) fn nvlinks(
        &self,
        mut remote_end: impl FnMut(&Self, u32) -> RemoteEnd,
        mut trouble: impl FnMut(Error),
    ) -> Vec<NvLink> {
        /// Links of today's largest GPUs, and room for those to come.
        const KNOWN: u32 = 18;
        const LIMIT: u32 = 36;
        let mut links = Vec::new();
        for link in 0..LIMIT {
            match self.nvlink_active(link) {
                Ok(active) => {
                    let remote = if active {
                        remote_end(self, link)
                    } else {
                        RemoteEnd::Unknown
                    };
                    links.push(NvLink {
                        link,
                        active,
                        remote,
                    });
                }
                Err(error) if error.is_unsupported() => break,
                Err(error) => {
                    if error.code() != Some(code::INVALID_ARGUMENT) {
                        trouble(error);
                    }
                    if link >= KNOWN.saturating_sub(1) {
                        break;
                    }
                }
            }
        }
        links
    }

    fn call(&self, call: Call, function: impl FnOnce() -> c_uint) -> Result<(), Error> {
        self.session.call(call, self.index, function)
    }

    fn number(
        &self,
        call: Call,
        function: unsafe extern "C" fn(nvmlDevice_t, *mut c_uint) -> c_uint,
    ) -> Result<u32, Error> {
        let mut number = 0;
        // SAFETY: the handle is the session's; NVML writes one unsigned int.
        self.call(call, || unsafe { function(self.handle.0, &raw mut number) })?;
        Ok(number)
    }

    fn malformed(&self, call: Call, what: &str) -> Error {
        Error::Malformed {
            call: call.name(),
            device: self.index,
            what: what.into(),
        }
    }
}

fn blank_pci() -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        busIdLegacy: [0; 16],
        domain: 0,
        bus: 0,
        device: 0,
        pciDeviceId: 0,
        pciSubSystemId: 0,
        busId: [0; 32],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_possible_wrap)]
    fn addresses_in_records() {
        let mut record = blank_pci();
        for (to, from) in record.busId.iter_mut().zip(b"00000000:17:00.0") {
            *to = *from as c_char;
        }
        assert_eq!(address(&record).unwrap().to_string(), "0000:17:00.0");
        let mut record = blank_pci();
        (record.domain, record.bus, record.device) = (1, 0x3d, 2);
        assert_eq!(address(&record).unwrap().to_string(), "0001:3d:02.0");
        record.bus = 0x1ff;
        assert_eq!(address(&record), None);
    }
}
