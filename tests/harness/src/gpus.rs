//! A node's GPUs: fake NVML, device nodes, and what the kernel would show of them.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use fake_nvml::fixture::{self, DeviceNode};
use fake_nvml::{Board, Scenario};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::{Error, Result, paths};

/// Where the library and its scenario are inside; the library folder has links to it.
const HOME: &str = "/opt/fake-nvml";
/// The library's name at run time, and the one that only a development package brings.
const RUNTIME_NAME: &str = "libnvidia-ml.so.1";
const DEVELOPMENT_NAME: &str = "libnvidia-ml.so";

/// What a node has.
#[derive(Clone, Debug, Default)]
pub(crate) enum Gpus {
    /// Nothing.
    #[default]
    None,
    /// `/dev/nvidia0` ... and no NVML.
    Devices(u32),
    /// Everything that a scenario describes.
    Scenario(Box<Scenario>),
}

impl Gpus {
    /// The scenario, with UUIDs that no other node's GPUs have.
    pub(crate) fn scenario(&self, node: &str) -> Option<Scenario> {
        let Self::Scenario(scenario) = self else {
            return None;
        };
        let mut scenario = Scenario::clone(scenario);
        scenario.uuid_seed.get_or_insert_with(|| node.to_owned());
        Some(scenario)
    }

    /// The processors of the scenario's machine.
    pub(crate) fn hwloc(&self) -> Result<Option<String>> {
        let Self::Scenario(scenario) = self else {
            return Ok(None);
        };
        Ok(resolve(scenario)?.hwloc_synthetic().map(str::to_owned))
    }

    /// The devices.
    pub(crate) fn nodes(&self) -> Result<Vec<DeviceNode>> {
        match self {
            Self::None => Ok(Vec::new()),
            Self::Devices(count) => Ok((0..*count)
                .map(|minor| DeviceNode {
                    path: format!("/dev/nvidia{minor}").into(),
                    major: 195,
                    minor,
                })
                .collect()),
            Self::Scenario(scenario) => fixture::device_nodes(scenario).map_err(invalid),
        }
    }
}

fn invalid(error: fake_nvml::Error) -> Error {
    Error::Unusable(format!("scenario: {error}"))
}

fn resolve(scenario: &Scenario) -> Result<Board> {
    scenario.resolve().map_err(invalid)
}

/// The folders, on the host, that are mounted over `/sys/bus/pci` and `/proc/driver`.
#[derive(Clone, Debug)]
pub(crate) struct Fixtures {
    pub(crate) pci: PathBuf,
    pub(crate) driver: PathBuf,
}

impl Fixtures {
    pub(crate) fn of(folder: &Path, node: &str) -> Self {
        let home = folder.join("gpus").join(node);
        Self {
            pci: home.join("pci"),
            driver: home.join("driver"),
        }
    }

    /// Writes them anew; the folders themselves stay, since they are mounted.
    pub(crate) fn write(&self, scenario: &Scenario) -> Result<()> {
        for dir in [&self.pci, &self.driver] {
            fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
            for entry in fs::read_dir(dir)
                .map_err(Error::file("read", dir))?
                .flatten()
            {
                let path = entry.path();
                fs::remove_dir_all(&path)
                    .or_else(|_| fs::remove_file(&path))
                    .map_err(Error::file("remove", &path))?;
            }
        }
        fixture::write_sysfs(scenario, &self.pci).map_err(invalid)?;
        fixture::write_proc_driver(scenario, &self.driver).map_err(invalid)
    }
}

/// Puts the library into a machine; `at` gives the host's path of one inside.
pub(crate) fn install_library(
    at: impl Fn(&str) -> Result<PathBuf>,
    libdir: &str,
    development_name: bool,
) -> Result<()> {
    let built = paths::dist().join("fake-nvml").join(RUNTIME_NAME);
    let home = at(HOME)?;
    fs::create_dir_all(&home).map_err(Error::file("make", &home))?;
    fs::copy(&built, home.join(RUNTIME_NAME))
        .map_err(|_| Error::NotSetUp(format!("no fake NVML in {}", built.display())))?;
    let inside = Path::new(HOME).join(RUNTIME_NAME);
    let names = [(RUNTIME_NAME, true), (DEVELOPMENT_NAME, development_name)];
    for (name, _) in names.iter().filter(|(_, wanted)| *wanted) {
        let link = at(&format!("{libdir}/{name}"))?;
        symlink(&inside, &link).map_err(Error::file("make", &link))?;
    }
    Ok(())
}

/// Gives the library its scenario.
pub(crate) fn write_scenario(
    at: impl Fn(&str) -> Result<PathBuf>,
    scenario: &Scenario,
) -> Result<()> {
    resolve(scenario)?;
    scenario
        .write_atomically(&at(HOME)?.join("scenario.toml"))
        .map_err(invalid)
}

/// Makes the devices that are missing from a machine's `/dev` and removes NVIDIA's that are too many.
pub(crate) fn sync_devices(dev: &Path, wanted: &[DeviceNode]) -> Result<()> {
    let inside = |node: &DeviceNode| dev.join(node.path.strip_prefix("/dev").unwrap_or(&node.path));
    let wanted: Vec<_> = wanted
        .iter()
        .map(|node| (inside(node), makedev(node.major.into(), node.minor.into())))
        .collect();
    for dir in [dev.to_path_buf(), dev.join("nvidia-caps")] {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let ours = entry.file_name().to_string_lossy().starts_with("nvidia");
            let device = entry
                .metadata()
                .ok()
                .filter(|meta| meta.file_type().is_char_device());
            let Some(device) = device.filter(|_| ours).map(|meta| meta.rdev()) else {
                continue;
            };
            if !wanted.contains(&(path.clone(), device)) {
                fs::remove_file(&path).map_err(Error::file("remove", &path))?;
            }
        }
    }
    for (path, device) in wanted {
        if path.exists() {
            continue;
        }
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
        }
        mknod(&path, SFlag::S_IFCHR, Mode::empty(), device)
            .map_err(|errno| Error::file("make device", &path)(errno.into()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))
            .map_err(Error::file("chmod", &path))?;
    }
    Ok(())
}
