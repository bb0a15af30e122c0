//! Which devices there are and what they are.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlBrandType_t, nvmlDeviceArchitecture_t, nvmlDeviceAttributes_t, nvmlDeviceCapabilities_t,
    nvmlEnableState_t, nvmlPciInfo_t, nvmlPciInfoExt_t, nvmlPdi_t, nvmlUUID_t,
};

use super::exports;
use super::handle::Handle;
use super::out::{Out, Supported as _, Text, array, count_of};
use crate::board::{Board, Gpu};
use crate::pci::PciAddress;
use crate::status::Status;

exports! {
    system [nvmlDeviceGetCount, nvmlDeviceGetCount_v2] (board; count: Out<c_uint>) => {
        count.set(count_of(board.gpus.len()))
    }

    system [nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2]
        (board; index: c_uint, device: Out<Handle>) => {
        let gpu = board.gpus.get(index as usize).ok_or(Status::INVALID_ARGUMENT)?;
        device.set(present(gpu)?)
    }

    system [nvmlDeviceGetHandleByUUID] (board; uuid: Text, device: Out<Handle>) => {
        device.set(by_uuid(board, &uuid.get()?)?)
    }

    system [nvmlDeviceGetHandleByUUIDV] (board; uuid: Out<nvmlUUID_t>, device: Out<Handle>) => {
        let asked = uuid.versioned(1)?;
        // The text form (type 1) lies where the union lies; the binary form is rare.
        if asked.type_ != 1 {
            return Err(Status::NOT_SUPPORTED);
        }
        let place = uuid.as_start::<[u8; std::mem::offset_of!(nvmlUUID_t, value) + 41]>().get()?;
        let text = place.get(std::mem::offset_of!(nvmlUUID_t, value)..).unwrap_or_default();
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        device.set(by_uuid(board, &String::from_utf8_lossy(text))?)
    }

    system [nvmlDeviceGetHandleBySerial] (board; serial: Text, device: Out<Handle>) => {
        let serial = serial.get()?;
        let gpu = board.gpus.iter().find(|gpu| gpu.serial == serial);
        device.set(present(gpu.ok_or(Status::NOT_FOUND)?)?)
    }

    system [nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2]
        (board; address: Text, device: Out<Handle>) => {
        let address: PciAddress = address.get()?.parse().map_err(|_| Status::INVALID_ARGUMENT)?;
        let gpu = board.gpus.iter().find(|gpu| gpu.pci == address);
        device.set(present(gpu.ok_or(Status::NOT_FOUND)?)?)
    }

    any [nvmlDeviceGetName] (t; name: Out<c_char>, length: c_uint) => {
        let product = t.name.as_deref().supported()?;
        match t.mig {
            Some(mig) => name.text(length, &format!("{product} MIG {}", mig.profile_name())),
            None => name.text(length, product),
        }
    }

    any [nvmlDeviceGetUUID] (t; uuid: Out<c_char>, length: c_uint) => {
        uuid.text(length, t.mig.map_or(&t.uuid, |mig| &mig.uuid))
    }

    any [nvmlDeviceGetIndex] (t; index: Out<c_uint>) => {
        let number = match t.mig {
            Some(mig) => t.gpu.mig.iter().position(|other| other.uuid == mig.uuid).unwrap_or(0),
            None => t.index,
        };
        index.set(count_of(number))
    }

    any [nvmlDeviceGetMinorNumber] (t; minor: Out<c_uint>) => { minor.set(t.gpu.minor) }

    any [nvmlDeviceGetPciInfo_v3] (t; pci: Out<nvmlPciInfo_t>) => { pci.set(pci_info(t)) }

    any [nvmlDeviceGetPciInfo_v2] (t; pci: Out<LegacyPciInfo>) => {
        pci.set(LegacyPciInfo::of(t))
    }

    any [nvmlDeviceGetPciInfo] (t; pci: Out<OldestPciInfo>) => {
        pci.set(LegacyPciInfo::of(t).oldest)
    }

    any [nvmlDeviceGetPciInfoExt] (t; pci: Out<nvmlPciInfoExt_t>) => {
        let asked = pci.versioned(1)?;
        let info = pci_info(t);
        pci.set(nvmlPciInfoExt_t {
            version: asked.version,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            pciDeviceId: info.pciDeviceId,
            pciSubSystemId: info.pciSubSystemId,
            baseClass: 3,
            subClass: 2,
            busId: info.busId,
        })
    }

    any [nvmlDeviceGetBrand] (t; brand: Out<nvmlBrandType_t>) => {
        brand.set(t.brand.supported()?)
    }

    any [nvmlDeviceGetArchitecture] (t; architecture: Out<nvmlDeviceArchitecture_t>) => {
        architecture.set(t.architecture.supported()?)
    }

    any [nvmlDeviceGetSerial] (t; serial: Out<c_char>, length: c_uint) => {
        serial.text(length, &t.gpu.serial)
    }

    any [nvmlDeviceGetBoardPartNumber] (t; number: Out<c_char>, length: c_uint) => {
        number.text(length, t.board_part_number.as_deref().supported()?)
    }

    any [nvmlDeviceGetVbiosVersion] (t; version: Out<c_char>, length: c_uint) => {
        version.text(length, t.vbios_version.as_deref().supported()?)
    }

    any [nvmlDeviceGetInforomImageVersion] (t; version: Out<c_char>, length: c_uint) => {
        version.text(length, t.inforom_version.as_deref().supported()?)
    }

    any [nvmlDeviceGetInforomVersion]
        (t; object: c_uint, version: Out<c_char>, length: c_uint) => {
        t.inforom_version.as_deref().supported()?;
        match object {
            0 => version.text(length, "2.1"),
            1 => version.text(length, "6.16"),
            2 => Err(Status::NOT_SUPPORTED),
            _ => Err(Status::INVALID_ARGUMENT),
        }
    }

    device [nvmlDeviceValidateInforom] (_;) => { Ok(()) }

    any [nvmlDeviceGetGspFirmwareVersion] (t; version: Out<c_char>) => {
        version.text(80, t.gsp_version.as_deref().unwrap_or_else(|| t.board.driver_version()))
    }

    any [nvmlDeviceGetGspFirmwareMode] (_; enabled: Out<c_uint>, default: Out<c_uint>) => {
        enabled.set(1)?;
        default.set(1)
    }

    device [nvmlDeviceGetModuleId] (t; id: Out<c_uint>) => {
        id.set(t.module_id.unwrap_or_else(|| count_of(t.position + 1)))
    }

    device [nvmlDeviceGetBoardId] (t; id: Out<c_uint>) => {
        id.set(t.pci.domain << 16 | u32::from(t.pci.bus) << 8)
    }

    device [nvmlDeviceGetPdi] (t; pdi: Out<nvmlPdi_t>) => {
        let mut value = pdi.versioned(1)?;
        value.value = t.serial.parse().unwrap_or(0);
        pdi.set(value)
    }

    device [nvmlDeviceGetMultiGpuBoard] (_; multi: Out<c_uint>) => { multi.set(0) }

    any [nvmlDeviceGetCudaComputeCapability] (t; major: Out<c_int>, minor: Out<c_int>) => {
        let capability = t.cuda_capability.supported()?;
        major.set(capability[0])?;
        minor.set(capability[1])
    }

    device [nvmlDeviceGetNumGpuCores] (t; cores: Out<c_uint>) => {
        cores.set(t.cores.supported()?)
    }

    device [nvmlDeviceGetDisplayMode, nvmlDeviceGetDisplayActive]
        (t; active: Out<nvmlEnableState_t>) => {
        active.set(t.display_active.supported()?.into())
    }

    any [nvmlDeviceGetVirtualizationMode] (_; mode: Out<c_uint>) => { mode.set(0) }

    device [nvmlDeviceGetIrqNum] (t; irq: Out<c_uint>) => { irq.set(64 + t.gpu.minor) }

    device [nvmlDeviceGetPowerSource] (_; source: Out<c_uint>) => { source.set(0) }

    device [nvmlDeviceGetBusType] (_; bus: Out<c_uint>) => { bus.set(2) }

    device [nvmlDeviceGetCapabilities] (t; capabilities: Out<nvmlDeviceCapabilities_t>) => {
        let mut value = capabilities.versioned(1)?;
        value.capMask = u32::from(t.nvlink.is_some()) * 2;
        capabilities.set(value)
    }

    any [nvmlDeviceGetAttributes, nvmlDeviceGetAttributes_v2]
        (t; attributes: Out<nvmlDeviceAttributes_t>) => {
        let mig = t.mig.supported()?;
        attributes.set(nvmlDeviceAttributes_t {
            multiprocessorCount: mig.multiprocessors(),
            sharedCopyEngineCount: mig.profile.copy_engines,
            sharedDecoderCount: mig.profile.decoders,
            sharedEncoderCount: mig.profile.encoders,
            sharedJpegCount: mig.profile.jpeg,
            sharedOfaCount: mig.profile.ofa,
            gpuInstanceSliceCount: mig.profile.slices,
            computeInstanceSliceCount: mig.compute_slices(),
            memorySizeMB: mig.memory_mib(),
        })
    }
}

fn present(gpu: &Gpu) -> Result<Handle, Status> {
    if gpu.lost == Some(true) {
        Err(Status::GPU_IS_LOST)
    } else {
        Ok(Handle::gpu(gpu))
    }
}

/// Accepts the two forms of MIG UUIDs: `MIG-...` and the older `MIG-GPU-.../gi/ci`.
fn by_uuid(board: &Board, uuid: &str) -> Result<Handle, Status> {
    for gpu in &board.gpus {
        if gpu.uuid == uuid {
            return present(gpu);
        }
        for mig in &gpu.mig {
            if mig.uuid == uuid || format!("MIG-{}/{}/{}", gpu.uuid, mig.gi, mig.ci) == uuid {
                present(gpu)?;
                return Ok(Handle::mig(gpu, mig));
            }
        }
    }
    Err(Status::NOT_FOUND)
}

fn pci_info(gpu: &Gpu) -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        pciDeviceId: gpu.pci_device_id.unwrap_or(0),
        pciSubSystemId: gpu.pci_subsystem_id.unwrap_or(0),
        ..address_info(gpu.pci)
    }
}

/// What NVML tells of an address without a device that it knows.
pub(super) fn address_info(address: PciAddress) -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        busIdLegacy: array(&address.nvml_legacy()),
        domain: address.domain,
        bus: address.bus.into(),
        device: address.device.into(),
        pciDeviceId: 0,
        pciSubSystemId: 0,
        busId: array(&address.nvml()),
    }
}

/// The struct of `nvmlDeviceGetPciInfo` before versions: nothing behind the device ID.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct OldestPciInfo {
    bus_id: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
}

/// The struct of `nvmlDeviceGetPciInfo_v2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LegacyPciInfo {
    oldest: OldestPciInfo,
    pci_subsystem_id: c_uint,
    reserved: [c_uint; 4],
}

impl LegacyPciInfo {
    fn of(gpu: &Gpu) -> Self {
        let info = pci_info(gpu);
        let oldest = OldestPciInfo {
            bus_id: info.busIdLegacy,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            pci_device_id: info.pciDeviceId,
        };
        Self {
            oldest,
            pci_subsystem_id: info.pciSubSystemId,
            reserved: [0; 4],
        }
    }
}
