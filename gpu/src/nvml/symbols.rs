//! The NVML library and its functions.
//!
//! Only the functions named here are ever looked up, each when it is first called, the newest
//! version first. A function that the library lacks is an [`Error::MissingSymbol`].

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ulonglong, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlDeviceAttributes_t, nvmlMemory_t, nvmlPciInfo_t, nvmlProcessInfo_v2_t,
    nvmlProcessUtilizationSample_t,
};

use super::error::Error;

/// The library's names, the one of driver packages first, the one of development packages last.
const LIBRARY: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// Stands in the cache for "looked up, not there".
const ABSENT: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);

macro_rules! functions {
    ($(
        $(#[$about:meta])*
        $call:ident = $method:ident ( $($argument:ty),* ) : $newest:literal $(, $older:literal)* ;
    )*) => {
        /// The NVML functions that this crate calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Call {
            $( $(#[$about])* #[doc = concat!("`", $newest, "`")] $call, )*
        }

        /// All of them, by number.
        const CALLS: &[Call] = &[ $( Call::$call, )* ];

        impl Call {
            /// The function's name, with the newest version's suffix.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$call => $newest, )* }
            }

            /// Its names as C strings, newest first.
            const fn symbols(self) -> &'static [&'static [u8]] {
                match self {
                    $( Self::$call => const { &[
                        concat!($newest, "\0").as_bytes(),
                        $( concat!($older, "\0").as_bytes(), )*
                    ] }, )*
                }
            }
        }

        impl Symbols {
            $(
                #[doc = concat!("Address of `", $newest, "` or an older version of it.")]
                pub(super) fn $method(
                    &self,
                ) -> Result<unsafe extern "C" fn($($argument),*) -> c_uint, Error> {
                    let address = self.resolve(Call::$call)?;
                    // SAFETY: NVML's documentation gives the function of this name, in each of
                    // the versions listed, these parameters; a function pointer and a data
                    // pointer have the same size on every system that has dlsym.
                    Ok(unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) -> c_uint,
                        >(address)
                    })
                }
            )*
        }
    };
}

functions! {
    Init = init(): "nvmlInit_v2", "nvmlInit";
    Shutdown = shutdown(): "nvmlShutdown";
    SystemGetDriverVersion = driver_version(*mut c_char, c_uint): "nvmlSystemGetDriverVersion";
    SystemGetNvmlVersion = nvml_version(*mut c_char, c_uint): "nvmlSystemGetNVMLVersion";
    DeviceGetCount = device_count(*mut c_uint): "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount";
    DeviceGetHandleByIndex = by_index(c_uint, *mut nvmlDevice_t):
        "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex";
    DeviceGetHandleByUuid = by_uuid(*const c_char, *mut nvmlDevice_t):
        "nvmlDeviceGetHandleByUUID";
    DeviceGetHandleByPciBusId = by_pci(*const c_char, *mut nvmlDevice_t):
        "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId";
    DeviceGetIndex = index(nvmlDevice_t, *mut c_uint): "nvmlDeviceGetIndex";
    DeviceGetName = name(nvmlDevice_t, *mut c_char, c_uint): "nvmlDeviceGetName";
    DeviceGetUuid = uuid(nvmlDevice_t, *mut c_char, c_uint): "nvmlDeviceGetUUID";
    DeviceGetPciInfo = pci_info(nvmlDevice_t, *mut nvmlPciInfo_t):
        "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo";
    DeviceGetMinorNumber = minor_number(nvmlDevice_t, *mut c_uint): "nvmlDeviceGetMinorNumber";
    DeviceGetMemoryInfo = memory_info(nvmlDevice_t, *mut nvmlMemory_t):
        "nvmlDeviceGetMemoryInfo";
    DeviceGetCpuAffinity = cpu_affinity(nvmlDevice_t, c_uint, *mut c_ulong):
        "nvmlDeviceGetCpuAffinity";
    DeviceGetMigMode = mig_mode(nvmlDevice_t, *mut c_uint, *mut c_uint): "nvmlDeviceGetMigMode";
    DeviceGetMaxMigDeviceCount = max_mig_devices(nvmlDevice_t, *mut c_uint):
        "nvmlDeviceGetMaxMigDeviceCount";
    DeviceGetMigDeviceHandleByIndex = mig_by_index(nvmlDevice_t, c_uint, *mut nvmlDevice_t):
        "nvmlDeviceGetMigDeviceHandleByIndex";
    DeviceGetGpuInstanceId = gpu_instance_id(nvmlDevice_t, *mut c_uint):
        "nvmlDeviceGetGpuInstanceId";
    DeviceGetComputeInstanceId = compute_instance_id(nvmlDevice_t, *mut c_uint):
        "nvmlDeviceGetComputeInstanceId";
    DeviceGetAttributes = attributes(nvmlDevice_t, *mut nvmlDeviceAttributes_t):
        "nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes";
    DeviceGetNvLinkState = nvlink_state(nvmlDevice_t, c_uint, *mut c_uint):
        "nvmlDeviceGetNvLinkState";
    DeviceGetNvLinkRemotePciInfo = nvlink_remote_pci(nvmlDevice_t, c_uint, *mut nvmlPciInfo_t):
        "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo";
    DeviceGetNvLinkRemoteDeviceType = nvlink_remote_type(nvmlDevice_t, c_uint, *mut c_uint):
        "nvmlDeviceGetNvLinkRemoteDeviceType";
    DeviceGetComputeRunningProcesses =
        compute_processes(nvmlDevice_t, *mut c_uint, *mut nvmlProcessInfo_v2_t):
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2";
    DeviceGetGraphicsRunningProcesses =
        graphics_processes(nvmlDevice_t, *mut c_uint, *mut nvmlProcessInfo_v2_t):
        "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2";
    DeviceGetProcessUtilization = process_utilization(
        nvmlDevice_t, *mut nvmlProcessUtilizationSample_t, *mut c_uint, c_ulonglong
    ): "nvmlDeviceGetProcessUtilization";
    DeviceGetTotalEnergyConsumption = total_energy(nvmlDevice_t, *mut c_ulonglong):
        "nvmlDeviceGetTotalEnergyConsumption";
    DeviceGetPowerUsage = power_usage(nvmlDevice_t, *mut c_uint): "nvmlDeviceGetPowerUsage";
    DeviceGetSupportedMemoryClocks =
        supported_memory_clocks(nvmlDevice_t, *mut c_uint, *mut c_uint):
        "nvmlDeviceGetSupportedMemoryClocks";
    DeviceGetSupportedGraphicsClocks =
        supported_graphics_clocks(nvmlDevice_t, c_uint, *mut c_uint, *mut c_uint):
        "nvmlDeviceGetSupportedGraphicsClocks";
    DeviceGetApplicationsClock = applications_clock(nvmlDevice_t, c_uint, *mut c_uint):
        "nvmlDeviceGetApplicationsClock";
    DeviceSetApplicationsClocks = set_applications_clocks(nvmlDevice_t, c_uint, c_uint):
        "nvmlDeviceSetApplicationsClocks";
    DeviceResetApplicationsClocks = reset_applications_clocks(nvmlDevice_t):
        "nvmlDeviceResetApplicationsClocks";
}

impl Call {
    /// The call of a number.
    pub(crate) fn from_number(number: usize) -> Option<Self> {
        CALLS.get(number).copied()
    }
}

/// The opened library.
pub struct Symbols {
    library: Library,
    cache: [AtomicPtr<c_void>; CALLS.len()],
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols").finish_non_exhaustive()
    }
}

impl Symbols {
    /// Opens the system's library.
    ///
    /// # Errors
    /// [`Error::Load`] when there is none.
    pub fn load() -> Result<Self, Error> {
        let mut why = String::new();
        for name in LIBRARY {
            match Self::open(Path::new(name)) {
                Ok(symbols) => return Ok(symbols),
                Err(Error::Load(reason)) => {
                    if !why.is_empty() {
                        why.push_str("; ");
                    }
                    why.push_str(&reason);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Load(why))
    }

    /// Opens a library of any name.
    ///
    /// # Errors
    /// [`Error::Load`] when it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        // SAFETY: loading runs the library's initialisers; it is NVIDIA's NVML or what the caller
        // names in its place, and NVML may be loaded and unloaded at any time.
        let library = unsafe { Library::new(path) };
        library
            .map(|library| Self {
                library,
                cache: [const { AtomicPtr::new(std::ptr::null_mut()) }; CALLS.len()],
            })
            .map_err(|error| {
                // The loader's own words name the file and what is wrong with it.
                let why = std::error::Error::source(&error).map(ToString::to_string);
                Error::Load(why.unwrap_or_else(|| error.to_string()))
            })
    }

    /// Has the library this function?
    #[must_use]
    pub fn has(&self, call: Call) -> bool {
        self.resolve(call).is_ok()
    }

    fn resolve(&self, call: Call) -> Result<*mut c_void, Error> {
        let missing = Error::MissingSymbol {
            symbol: call.name(),
        };
        let Some(slot) = self.cache.get(call as usize) else {
            return Err(missing);
        };
        let mut address = slot.load(Ordering::Relaxed);
        if address.is_null() {
            address = self.look_up(call).unwrap_or(ABSENT);
            slot.store(address, Ordering::Relaxed);
        }
        if address == ABSENT {
            Err(missing)
        } else {
            Ok(address)
        }
    }

    fn look_up(&self, call: Call) -> Option<*mut c_void> {
        call.symbols().iter().find_map(|name| {
            // SAFETY: only the address is taken here; it is used with the type that NVML's
            // documentation gives the function, while `self` keeps the library open.
            let symbol = unsafe { self.library.get::<unsafe extern "C" fn() -> c_int>(*name) };
            symbol.ok().map(|function| *function as *mut c_void)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names() {
        assert_eq!(
            Call::from_number(Call::DeviceGetName as usize),
            Some(Call::DeviceGetName)
        );
        assert_eq!(Call::from_number(CALLS.len()), None);
        assert_eq!(Call::Init.name(), "nvmlInit_v2");
        assert!(
            CALLS
                .iter()
                .all(|call| call.symbols().iter().all(|name| name.ends_with(b"\0")))
        );
    }

    #[test]
    fn what_is_missing_is_a_value() {
        assert!(matches!(
            Symbols::open(Path::new("/nonexistent.so")),
            Err(Error::Load(_))
        ));
        // Some library that has no NVML function.
        let Ok(symbols) = Symbols::open(Path::new("libc.so.6")) else {
            return;
        };
        for _ in 0..2 {
            assert_eq!(
                symbols.resolve(Call::DeviceGetName),
                Err(Error::MissingSymbol {
                    symbol: "nvmlDeviceGetName"
                })
            );
        }
        assert!(!symbols.has(Call::Init));
    }
}
