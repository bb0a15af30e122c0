//! A resolved scenario: every device with all its keys, identities filled in, checked.

use std::collections::BTreeSet;
use std::ops::Deref;

use crate::cpulist;
use crate::energy::Power;
use crate::error::Error;
use crate::pci::PciAddress;
use crate::scenario::{Device, MigInstance, MigProfile, Process, Scenario, merged};

const BASE: &str = include_str!("../boards/base.toml");

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        const BUILT_IN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../boards/", $name, ".toml")))),*];
    };
}

built_in!(
    "8xa100-sxm4-80gb",
    "8xh100-sxm5",
    "8xh200",
    "8xb200",
    "4xgh200",
    "8xl40s",
    "4xt4",
    "16xv100-sxm3",
    "a100-mig-mixed",
    "h100-mig-7x1g",
);

/// Names of the built-in boards.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|board| board.0)
}

/// A resolved scenario.
#[derive(Debug, Clone)]
pub struct Board {
    /// All keys that are not about a device. Its device lists are not merged.
    pub scenario: Scenario,
    /// The devices, absent ones left out, in NVML's order. A position here is NVML's index.
    pub gpus: Vec<Gpu>,
    /// The NVSwitches' addresses.
    pub nvswitches: Vec<PciAddress>,
}

/// A device of a [`Board`]. Dereferences to its keys.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// Position on the board; differs from NVML's index behind an absent device.
    pub position: usize,
    /// `GPU-...`.
    pub uuid: String,
    /// Board serial number.
    pub serial: String,
    /// N of /dev/nvidiaN.
    pub minor: u32,
    /// PCI address.
    pub pci: PciAddress,
    /// Bridges above it, root port first.
    pub bridges: Vec<PciAddress>,
    /// CPUs next to it.
    pub cpus: BTreeSet<usize>,
    /// CPUs of its socket.
    pub socket_cpus: BTreeSet<usize>,
    /// Address at the other end of each NVLink.
    pub links: Vec<PciAddress>,
    /// Power over time.
    pub power: Option<Power>,
    /// MIG devices. A position here is NVML's MIG index.
    pub mig: Vec<Mig>,
    /// Processes named for this device.
    pub processes: Vec<Process>,
    device: Device,
}

impl Deref for Gpu {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

/// A MIG device of a [`Gpu`]. Dereferences to its keys.
#[derive(Debug, Clone)]
pub struct Mig {
    /// `MIG-...`.
    pub uuid: String,
    /// Profile of its GPU instance.
    pub profile: MigProfile,
    /// First memory slice of its GPU instance.
    pub start: u32,
    instance: MigInstance,
}

impl Deref for Mig {
    type Target = MigInstance;

    fn deref(&self) -> &MigInstance {
        &self.instance
    }
}

impl Mig {
    /// Slices of the compute instance.
    #[must_use]
    pub fn compute_slices(&self) -> u32 {
        self.instance.compute_slices.unwrap_or(self.profile.slices)
    }

    /// Memory of the GPU instance, in MiB.
    #[must_use]
    pub fn memory_mib(&self) -> u64 {
        self.instance.memory_mib.unwrap_or(self.profile.memory_mib)
    }

    /// Streaming multiprocessors of the compute instance.
    #[must_use]
    pub fn multiprocessors(&self) -> u32 {
        let share = self.profile.multiprocessors * self.compute_slices();
        self.instance
            .multiprocessors
            .unwrap_or(share / self.profile.slices.max(1))
    }

    /// The profile's name; with the compute slices in front if they are only a part.
    #[must_use]
    pub fn profile_name(&self) -> String {
        if self.compute_slices() == self.profile.slices {
            self.profile.name.clone()
        } else {
            format!("{}c.{}", self.compute_slices(), self.profile.name)
        }
    }
}

impl Board {
    pub(crate) fn new(scenario: &Scenario) -> Result<Self, Error> {
        let base = Scenario::parse(BASE).map_err(|error| error.of("board base"))?;
        let below = match scenario.board.as_deref() {
            Some(name) => built_in_board(name)?,
            None => Scenario::default(),
        };
        let (whole, mut devices) = merged(&[&base, &below, scenario])?;
        if scenario.board.is_some() {
            let known = below.device.len();
            if devices.len() > known {
                let message = format!(
                    "{} is beyond the board's {known} devices",
                    devices.len() - 1
                );
                return Err(Error::invalid("device.index", message));
            }
        }
        if let Some(gpus) = whole.gpus {
            devices.truncate(gpus);
        }
        check(&whole, devices.len())?;
        let seed = format!(
            "{}/{}",
            whole.board.as_deref().unwrap_or("custom"),
            whole.uuid_seed.as_deref().unwrap_or("")
        );
        let mut gpus = Vec::new();
        for (position, device) in devices.into_iter().enumerate() {
            if device.absent != Some(true) {
                gpus.push(gpu(&whole, &seed, position, device)?);
            }
        }
        // NVML numbers devices by address.
        gpus.sort_by_key(|gpu| gpu.pci);
        unique("pci", gpus.iter().map(|gpu| gpu.pci.to_string()))?;
        unique("minor", gpus.iter().map(|gpu| gpu.minor.to_string()))?;
        unique("uuid", gpus.iter().map(|gpu| gpu.uuid.clone()))?;
        let nvswitches = whole.machine.nvswitches.iter().flatten();
        let nvswitches = nvswitches
            .map(|text| address("machine.nvswitches", text))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            scenario: whole,
            gpus,
            nvswitches,
        })
    }

    /// Number of CPUs of the machine; 0 if unknown.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.scenario.machine.cpus.unwrap_or(0)
    }

    /// Value for `HWLOC_SYNTHETIC` that gives Slurm the machine's CPUs and NUMA nodes.
    #[must_use]
    pub fn hwloc_synthetic(&self) -> Option<&str> {
        self.scenario.machine.hwloc_synthetic.as_deref()
    }

    /// What `nvmlSystemGetDriverVersion` says.
    #[must_use]
    pub fn driver_version(&self) -> &str {
        self.scenario.driver_version.as_deref().unwrap_or("")
    }
}

fn built_in_board(name: &str) -> Result<Scenario, Error> {
    let found = BUILT_IN.iter().find(|board| board.0 == name);
    let (name, text) = found.ok_or_else(|| {
        let known: Vec<&str> = names().collect();
        Error::invalid(
            "board",
            format!("`{name}` is not one of {}", known.join(", ")),
        )
    })?;
    Scenario::parse(text).map_err(|error| error.of(&format!("board {name}")))
}

fn gpu(whole: &Scenario, seed: &str, position: usize, device: Device) -> Result<Gpu, Error> {
    let key = |name: &str| format!("device[{position}].{name}");
    let pci = device
        .pci
        .as_deref()
        .ok_or_else(|| Error::invalid(key("pci"), "missing"))?;
    let pci = address(&key("pci"), pci)?;
    let bridges = device.pci_bridges.iter().flatten();
    let bridges = bridges
        .map(|text| address(&key("pci_bridges"), text))
        .collect::<Result<_, _>>()?;
    let list = |name: &str, text: &Option<String>| match text {
        Some(text) => cpulist::parse(text).map_err(|message| Error::invalid(key(name), message)),
        None => Ok(BTreeSet::new()),
    };
    let cpus = list("cpus", &device.cpus)?;
    let mut socket_cpus = list("socket_cpus", &device.socket_cpus)?;
    if socket_cpus.is_empty() {
        socket_cpus.clone_from(&cpus);
    }
    let links = device
        .nvlink
        .iter()
        .flat_map(|nvlink| nvlink.to.iter().flatten());
    let links = links
        .map(|text| address(&key("nvlink.to"), text))
        .collect::<Result<_, _>>()?;
    check_power(&device, &key)?;
    let default_minor = u32::try_from(position).unwrap_or(u32::MAX);
    let uuid = device
        .uuid
        .clone()
        .unwrap_or_else(|| generated(&format!("{seed}/{position}"), "GPU"));
    let serial = device.serial.clone().unwrap_or_else(|| {
        format!(
            "165{:010}",
            hash(&format!("serial {seed}/{position}")) % 10_000_000_000
        )
    });
    Ok(Gpu {
        position,
        serial,
        minor: device.minor.unwrap_or(default_minor),
        pci,
        bridges,
        cpus,
        socket_cpus,
        links,
        power: Power::of(&device, crate::energy::boot_micros()),
        mig: mig_devices(&device, &uuid, &key)?,
        processes: whole
            .process
            .iter()
            .filter(|p| p.device == position)
            .cloned()
            .collect(),
        uuid,
        device,
    })
}

fn mig_devices(
    device: &Device,
    uuid: &str,
    key: &dyn Fn(&str) -> String,
) -> Result<Vec<Mig>, Error> {
    let mut made: Vec<Mig> = Vec::new();
    let mut next = 0;
    if device.mig_enabled == Some(false) {
        return Ok(made);
    }
    for (number, instance) in device.mig.iter().flatten().enumerate() {
        let at = |name: &str| key(&format!("mig[{number}].{name}"));
        let profiles = device.mig_profiles.as_deref().unwrap_or_default();
        let profile = profiles
            .iter()
            .find(|profile| profile.name == instance.profile);
        let profile = profile.ok_or_else(|| {
            let known: Vec<&str> = profiles
                .iter()
                .map(|profile| profile.name.as_str())
                .collect();
            let message = format!("`{}` is not one of {}", instance.profile, known.join(", "));
            Error::invalid(at("profile"), message)
        })?;
        if instance.gi > 14 || instance.ci > 7 {
            return Err(Error::invalid(at("gi"), "a gi is 0 to 14, a ci is 0 to 7"));
        }
        if made
            .iter()
            .any(|mig| mig.gi == instance.gi && mig.ci == instance.ci)
        {
            return Err(Error::invalid(at("ci"), "this gi and ci are taken"));
        }
        let same = made
            .iter()
            .find(|mig| mig.gi == instance.gi)
            .map(|mig| mig.start);
        let start = instance.start.or(same).unwrap_or(next);
        next = next.max(start + profile.memory_slices);
        let name = format!("{uuid}/{}/{}", instance.gi, instance.ci);
        made.push(Mig {
            uuid: instance
                .uuid
                .clone()
                .unwrap_or_else(|| generated(&name, "MIG")),
            profile: profile.clone(),
            start,
            instance: instance.clone(),
        });
    }
    Ok(made)
}

fn check(whole: &Scenario, devices: usize) -> Result<(), Error> {
    let known = |key: String, index: usize| {
        let message = format!("there is no device {index}");
        if index < devices {
            Ok(())
        } else {
            Err(Error::invalid(key, message))
        }
    };
    for (number, process) in whole.process.iter().enumerate() {
        known(format!("process[{number}].device"), process.device)?;
        if process.pid.is_some() == process.comm.is_some() {
            let key = format!("process[{number}].pid");
            return Err(Error::invalid(key, "give either pid or comm"));
        }
    }
    for (number, fault) in whole.fault.iter().enumerate() {
        if let Some(index) = fault.device {
            known(format!("fault[{number}].device"), index)?;
        }
        if fault.call != "*" && !crate::abi::knows(&fault.call) {
            let message = format!("`{}` is not an NVML call", fault.call);
            return Err(Error::invalid(format!("fault[{number}].call"), message));
        }
    }
    for call in whole.latency.keys() {
        if !crate::abi::knows(call) {
            let message = format!("`{call}` is not an NVML call");
            return Err(Error::invalid(format!("latency.{call}"), message));
        }
    }
    Ok(())
}

fn check_power(device: &Device, key: &dyn Fn(&str) -> String) -> Result<(), Error> {
    let sound = |value: f64| value.is_finite() && (0.0..1e12).contains(&value);
    let schedule = device.power_schedule.as_deref().unwrap_or_default();
    let ascending = schedule.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if !ascending
        || !schedule
            .iter()
            .all(|entry| sound(entry.0) && sound(entry.1))
    {
        return Err(Error::invalid(
            key("power_schedule"),
            "times must ascend, none negative",
        ));
    }
    if let Some(cycle) = &device.power_cycle {
        let steps = &cycle.steps;
        let whole: f64 = steps.iter().map(|step| step.0).sum();
        if whole < 1e-3 || !steps.iter().all(|step| sound(step.0) && sound(step.1)) {
            return Err(Error::invalid(
                key("power_cycle"),
                "needs steps that take time",
            ));
        }
    }
    if device.power_w.is_some_and(|watts| !sound(watts)) {
        return Err(Error::invalid(key("power_w"), "must not be negative"));
    }
    Ok(())
}

fn unique(key: &str, values: impl Iterator<Item = String>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for value in values {
        if !seen.insert(value.clone()) {
            return Err(Error::invalid(
                format!("device.{key}"),
                format!("{value} is given twice"),
            ));
        }
    }
    Ok(())
}

fn address(key: &str, text: &str) -> Result<PciAddress, Error> {
    text.parse()
        .map_err(|message: String| Error::invalid(key, message))
}

/// A UUID that depends on `name` only.
fn generated(name: &str, prefix: &str) -> String {
    let high = hash(name);
    let low = hash(&format!("{name}/low"));
    format!(
        "{prefix}-{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

/// FNV-1a, then the finaliser of SplitMix64 so that near names give far values.
fn hash(text: &str) -> u64 {
    let mut value = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        value = (value ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
