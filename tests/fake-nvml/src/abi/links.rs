//! NVLink and fabric.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlEnableState_t, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t,
    nvmlPciInfo_t,
};

use super::entry::Target;
use super::exports;
use super::identity::address_info;
use super::out::{Out, Supported as _, version as version_of};
use crate::pci::PciAddress;
use crate::scenario::{Fabric, FabricState, LinkErrors, NvLink, RemoteKind};
use crate::status::Status;

exports! {
    device [nvmlDeviceGetNvLinkState] (t; link: c_uint, active: Out<nvmlEnableState_t>) => {
        active.set(is_active(t, link)?.into())
    }

    device [nvmlDeviceGetNvLinkVersion] (t; link: c_uint, version: Out<c_uint>) => {
        version.set(version_code(up(t, link)?.generation.supported()?))
    }

    device [nvmlDeviceGetNvLinkCapability]
        (t; link: c_uint, capability: c_uint, has: Out<c_uint>) => {
        up(t, link)?;
        match capability {
            // Peer access, system memory, both with atomics; valid.
            0..=3 | 5 => has.set(1),
            4 => has.set(0),
            _ => Err(Status::INVALID_ARGUMENT),
        }
    }

    device [nvmlDeviceGetNvLinkRemotePciInfo_v2] (t; link: c_uint, pci: Out<nvmlPciInfo_t>) => {
        up(t, link)?;
        let address = remote(t, link)?;
        let mut info = address_info(address);
        if let Some(other) = t.board.gpus.iter().find(|gpu| gpu.pci == address) {
            info.pciDeviceId = other.pci_device_id.unwrap_or(0);
            info.pciSubSystemId = other.pci_subsystem_id.unwrap_or(0);
        }
        pci.set(info)
    }

    // The older struct ends before the longer address.
    device [nvmlDeviceGetNvLinkRemotePciInfo] (t; link: c_uint, pci: Out<OldPciInfo>) => {
        up(t, link)?;
        let info = address_info(remote(t, link)?);
        pci.set(OldPciInfo {
            bus_id: info.busIdLegacy,
            numbers: [info.domain, info.bus, info.device, 0],
        })
    }

    device [nvmlDeviceGetNvLinkRemoteDeviceType] (t; link: c_uint, kind: Out<c_uint>) => {
        kind.set(match up(t, link)?.remote.unwrap_or(RemoteKind::Unknown) {
            RemoteKind::Gpu => 0,
            RemoteKind::Ibmnpu => 1,
            RemoteKind::Switch => 2,
            RemoteKind::Unknown => 255,
        })
    }

    device [nvmlDeviceGetNvLinkErrorCounter]
        (t; link: c_uint, counter: c_uint, value: Out<c_ulonglong>) => {
        value.set(error_count(t, link, counter)?)
    }

    device [nvmlDeviceResetNvLinkErrorCounters] (t; link: c_uint) => {
        remote(t, link)?;
        t.change(|settings| settings.nvlink_errors_cleared = Some(true))
    }

    device [nvmlDeviceGetGpuFabricInfo] (t; info: Out<FabricInfo>) => {
        info.set(FabricInfo::of(t.fabric.as_ref().supported()?))
    }

    device [nvmlDeviceGetGpuFabricInfoV] (t; info: Out<FabricInfoV3>) => {
        let version = info.as_start::<c_uint>().get()?;
        let fabric = t.fabric.as_ref().supported()?;
        let second = FabricInfoV2 {
            version,
            first: FabricInfo::of(fabric),
            health_mask: fabric.health_mask.unwrap_or(0),
        };
        if version == version_of::<FabricInfoV3>(3) {
            let health_summary = fabric.health_summary.unwrap_or(0).into();
            info.set(FabricInfoV3 { second, health_summary })
        } else if version == version_of::<FabricInfoV2>(2) {
            info.as_start().set(second)
        } else {
            Err(Status::ARGUMENT_VERSION_MISMATCH)
        }
    }
}

/// `nvmlGpuFabricInfo_t`. NVML has bytes where words stand here, for `state` and the later
/// `healthSummary`; NVIDIA's Python binding reads words, so the padding must be 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FabricInfo {
    cluster_uuid: [u8; 16],
    status: c_uint,
    clique_id: c_uint,
    state: c_uint,
}

/// `nvmlGpuFabricInfo_v2_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FabricInfoV2 {
    version: c_uint,
    first: FabricInfo,
    health_mask: c_uint,
}

/// `nvmlGpuFabricInfo_v3_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FabricInfoV3 {
    second: FabricInfoV2,
    health_summary: c_uint,
}

const _: () = assert!(size_of::<FabricInfo>() == size_of::<nvmlGpuFabricInfo_t>());
const _: () = assert!(size_of::<FabricInfoV2>() == size_of::<nvmlGpuFabricInfo_v2_t>());
const _: () = assert!(size_of::<FabricInfoV3>() == size_of::<nvmlGpuFabricInfo_v3_t>());

impl FabricInfo {
    fn of(fabric: &Fabric) -> Self {
        Self {
            cluster_uuid: cluster(fabric),
            status: fabric.status.unwrap_or(Status::SUCCESS).0,
            clique_id: fabric.clique_id.unwrap_or(0),
            state: match fabric.state.unwrap_or(FabricState::NotSupported) {
                FabricState::NotSupported => 0,
                FabricState::NotStarted => 1,
                FabricState::InProgress => 2,
                FabricState::Completed => 3,
            },
        }
    }
}

/// The struct of the first `nvmlDeviceGetNvLinkRemotePciInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct OldPciInfo {
    bus_id: [std::ffi::c_char; 16],
    numbers: [c_uint; 4],
}

pub(super) fn nvlink<'a>(t: &'a Target<'_>) -> Result<&'a NvLink, Status> {
    t.gpu.nvlink.as_ref().supported()
}

/// The address at the other end; a link that the device does not have is an invalid argument.
fn remote(t: &Target<'_>, link: c_uint) -> Result<PciAddress, Status> {
    nvlink(t)?;
    t.gpu
        .links
        .get(link as usize)
        .copied()
        .ok_or(Status::INVALID_ARGUMENT)
}

/// Whether the link is up. A device in MIG mode uses no links.
pub(super) fn is_active(t: &Target<'_>, link: c_uint) -> Result<bool, Status> {
    remote(t, link)?;
    let down = nvlink(t)?
        .down
        .as_ref()
        .is_some_and(|down| down.contains(&link));
    Ok(!down && !t.mig_enabled())
}

/// The links' keys, if this one is up.
fn up<'a>(t: &'a Target<'_>, link: c_uint) -> Result<&'a NvLink, Status> {
    if is_active(t, link)? {
        nvlink(t)
    } else {
        Err(Status::NOT_SUPPORTED)
    }
}

/// NVML's code of an NVLink generation.
pub(super) fn version_code(generation: c_uint) -> c_uint {
    match generation {
        1 => 1,
        2 => 2,
        3 => 4,
        4 => 6,
        5 => 7,
        _ => 0,
    }
}

/// An error counter of a link: 0 replay, 1 recovery, 2 flit CRC, 3 data CRC, 4 data ECC.
pub(super) fn error_count(t: &Target<'_>, link: c_uint, counter: c_uint) -> Result<u64, Status> {
    remote(t, link)?;
    let known = nvlink(t)?.errors.as_deref().unwrap_or_default();
    let found = known.iter().find(|errors| errors.link == link).cloned();
    let cleared = t.settings().nvlink_errors_cleared == Some(true);
    let errors = if cleared {
        LinkErrors::default()
    } else {
        found.unwrap_or_default()
    };
    Ok(match counter {
        0 => errors.replay,
        1 => errors.recovery,
        2 => errors.crc_flit,
        3 => errors.crc_data,
        4 => errors.ecc_data,
        _ => return Err(Status::INVALID_ARGUMENT),
    })
}

fn cluster(fabric: &Fabric) -> [u8; 16] {
    let text = fabric.cluster_uuid.as_deref().unwrap_or_default();
    let mut digits = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .filter_map(|d| u8::try_from(d).ok());
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        *byte = digits.next().unwrap_or(0) << 4 | digits.next().unwrap_or(0);
    }
    uuid
}
