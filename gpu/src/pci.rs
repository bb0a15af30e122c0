//! PCI addresses.

use std::fmt;
use std::str::FromStr;

/// A PCI address: domain, bus, device and function.
///
/// Reads both of the forms met on a GPU node, NVML's `00000000:17:00.0` and the kernel's
/// `0000:17:00.0`, and orders as the kernel and NVML do: by domain, bus, device, function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// PCI domain (segment); more than 16 bits under some hypervisors.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device (slot) number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

/// A text that is no PCI address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a PCI address: {0:?}")]
pub struct ParsePciError(pub String);

impl PciAddress {
    /// An address from its parts; `None` when device or function is out of range.
    #[must_use]
    pub fn new(domain: u32, bus: u8, device: u8, function: u8) -> Option<Self> {
        (device < 32 && function < 8).then_some(Self {
            domain,
            bus,
            device,
            function,
        })
    }

    /// NVML's form, with a domain of eight digits: `00000000:17:00.0`.
    #[must_use]
    pub fn to_nvml_string(&self) -> String {
        format!(
            "{:08X}:{:02X}:{:02X}.{:X}",
            self.domain, self.bus, self.device, self.function
        )
    }

    /// Reads an address from bytes; `None` when they are not one.
    #[must_use]
    pub fn parse_bytes(text: &[u8]) -> Option<Self> {
        let mut colons = text.split(|b| *b == b':');
        let first = colons.next()?;
        let second = colons.next()?;
        let third = colons.next();
        if colons.next().is_some() {
            return None;
        }
        let (domain, bus, rest) = match third {
            Some(rest) => (hex(first, 4, 8)?, hex(second, 2, 2)?, rest),
            None => (0, hex(first, 2, 2)?, second),
        };
        let mut dots = rest.split(|b| *b == b'.');
        let device = hex(dots.next()?, 2, 2)?;
        let function = hex(dots.next()?, 1, 1)?;
        if dots.next().is_some() {
            return None;
        }
        Self::new(
            domain,
            u8::try_from(bus).ok()?,
            u8::try_from(device).ok()?,
            u8::try_from(function).ok()?,
        )
    }
}

/// A hexadecimal number of `least` to `most` digits.
fn hex(digits: &[u8], least: usize, most: usize) -> Option<u32> {
    if digits.len() < least || digits.len() > most {
        return None;
    }
    digits.iter().try_fold(0u32, |sum, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        sum.checked_mul(16)?.checked_add(digit)
    })
}

impl FromStr for PciAddress {
    type Err = ParsePciError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse_bytes(text.as_bytes()).ok_or_else(|| ParsePciError(text.to_owned()))
    }
}

/// The kernel's form, as in sysfs: `0000:17:00.0`.
impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    #[test]
    fn both_forms_are_one_address() {
        let nvml = address("00000000:17:00.0");
        assert_eq!(nvml, address("0000:17:00.0"));
        assert_eq!(nvml, address("17:00.0"));
        assert_eq!(nvml.to_string(), "0000:17:00.0");
        assert_eq!(nvml.to_nvml_string(), "00000000:17:00.0");
        assert_eq!(address("0000:CB:1F.7"), address("0000:cb:1f.7"));
    }

    #[test]
    fn a_wide_domain_survives() {
        let address = address("00010009:0A:00.0");
        assert_eq!(address.domain, 0x1_0009);
        assert_eq!(address.to_string(), "10009:0a:00.0");
        assert_eq!(address.to_string().parse(), Ok(address));
    }

    #[test]
    fn rejects_what_is_none() {
        for text in [
            "",
            ":",
            "17:00",
            "0000:17:00",
            "0000:17:20.0",
            "0000:17:00.8",
            "g000:17:00.0",
            "0000:17:00.0 ",
            "000000000:17:00.0",
            "1:2:3:4.0",
            "0000:17:00.0.0",
            "pci0000:17",
            "0000:+7:00.0",
            "0:17:00.0",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn orders_by_domain_bus_device_function() {
        let sorted = [
            "0000:01:00.0",
            "0000:01:00.1",
            "0000:01:01.0",
            "0000:02:00.0",
            "0001:00:00.0",
        ];
        assert!(
            sorted
                .windows(2)
                .all(|pair| address(pair[0]) < address(pair[1]))
        );
    }

    proptest! {
        #[test]
        fn print_and_parse(domain: u32, bus: u8, device in 0u8..32, function in 0u8..8) {
            let address = PciAddress::new(domain, bus, device, function).unwrap();
            prop_assert_eq!(address.to_string().parse(), Ok(address));
            prop_assert_eq!(address.to_nvml_string().parse(), Ok(address));
        }

        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = text.parse::<PciAddress>();
        }
    }
}
