//! A private copy of the built library, with its scenario beside it.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};

use fake_nvml::Scenario;
use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t, nvmlReturn_t};
use tempfile::TempDir;

/// Where cargo has put the cdylib: beside the folder of the test program, or in it. Another
/// build's library can be named by SGPU_FAKE_NVML_LIBRARY.
pub(crate) fn built_library() -> PathBuf {
    if let Some(named) = std::env::var_os("SGPU_FAKE_NVML_LIBRARY") {
        return named.into();
    }
    let program = std::env::current_exe().unwrap();
    let deps = program.parent().unwrap();
    let found = [
        deps.join("libfake_nvml.so"),
        deps.parent().unwrap().join("libfake_nvml.so"),
    ];
    let newest = found
        .iter()
        .filter(|path| path.exists())
        .max_by_key(|path| path.metadata().and_then(|file| file.modified()).unwrap());
    newest
        .expect("cargo builds the cdylib before the tests")
        .clone()
}

/// A folder with the library under its real name.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(built_library(), folder.path().join("libnvidia-ml.so.1")).unwrap();
    folder
}

/// The library, loaded from a folder of its own: no state is shared with other tests.
pub(crate) struct Fake {
    pub(crate) lib: NvmlLib,
    folder: TempDir,
}

impl Fake {
    pub(crate) fn load(scenario: &Scenario) -> Self {
        let folder = folder();
        scenario
            .write_atomically(&folder.path().join("scenario.toml"))
            .unwrap();
        // SAFETY: the library runs no code at load; its types are those of nvml-wrapper-sys.
        let lib = unsafe { NvmlLib::new(folder.path().join("libnvidia-ml.so.1")) }.unwrap();
        Self { lib, folder }
    }

    pub(crate) fn start(scenario: &Scenario) -> Self {
        let fake = Self::load(scenario);
        // SAFETY: takes nothing.
        assert_eq!(unsafe { fake.lib.nvmlInit_v2() }, 0);
        fake
    }

    pub(crate) fn play(&self, scenario: &Scenario) {
        scenario
            .write_atomically(&self.path("scenario.toml"))
            .unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }

    pub(crate) fn device(&self, index: u32) -> nvmlDevice_t {
        let mut device = std::ptr::null_mut();
        // SAFETY: the place is valid for a handle.
        let status = unsafe {
            self.lib
                .nvmlDeviceGetHandleByIndex_v2(index, &raw mut device)
        };
        assert_eq!(status, 0, "device {index}");
        device
    }

    pub(crate) fn temperature(&self, device: nvmlDevice_t) -> Result<u32, nvmlReturn_t> {
        let mut temperature = 0;
        // SAFETY: the place is valid for an unsigned int.
        let status = unsafe {
            self.lib
                .nvmlDeviceGetTemperature(device, 0, &raw mut temperature)
        };
        if status == 0 {
            Ok(temperature)
        } else {
            Err(status)
        }
    }
}
