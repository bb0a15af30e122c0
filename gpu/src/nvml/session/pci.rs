//! NVML's PCI records.

use nvml_wrapper_sys::bindings::nvmlPciInfo_t;

use crate::pci::PciAddress;

/// The address in NVML's PCI record: its text, which alone has the function, else its numbers.
#[allow(clippy::cast_sign_loss)]
pub(super) fn address(record: &nvmlPciInfo_t) -> Option<PciAddress> {
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

pub(super) fn blank_pci() -> nvmlPciInfo_t {
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
    use std::ffi::c_char;

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
