//! What a GPU or MIG device is.

use std::ffi::{c_uint, c_ulong};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlDeviceAttributes_t, nvmlMemory_t};

use super::pci::{address, blank_pci};
use super::{Device, Handle};
use crate::cpuset::CpuSet;
use crate::model::MigAttributes;
use crate::nvml::error::{Error, code};
use crate::nvml::symbols::Call;
use crate::pci::PciAddress;

/// Words of an affinity mask: 8192 CPUs on 64 bits, more than the kernel can be built for.
const MASK_WORDS: u32 = 128;

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

    pub(super) fn call(&self, call: Call, function: impl FnOnce() -> c_uint) -> Result<(), Error> {
        self.session.call(call, self.index, function)
    }

    pub(super) fn number(
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
