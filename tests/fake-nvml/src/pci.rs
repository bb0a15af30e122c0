//! PCI addresses.

use std::fmt;
use std::str::FromStr;

/// A PCI address, `domain:bus:device.function`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device on the bus.
    pub device: u8,
    /// Function of the device.
    pub function: u8,
}

impl PciAddress {
    /// NVML's form, with eight digits of domain and upper case: `00000000:18:00.0`.
    #[must_use]
    pub fn nvml(&self) -> String {
        format!(
            "{:08X}:{:02X}:{:02X}.{:X}",
            self.domain, self.bus, self.device, self.function
        )
    }

    /// NVML's older form, with four digits of domain.
    #[must_use]
    pub fn nvml_legacy(&self) -> String {
        format!(
            "{:04X}:{:02X}:{:02X}.{:X}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

/// The kernel's form: `0000:18:00.0`.
impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

impl FromStr for PciAddress {
    type Err = String;

    /// Accepts `18:00.0`, `0000:18:00.0` and `00000000:18:00.0`, in either case.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a PCI address such as 0000:18:00.0");
        let hex = |digits: &str| u32::from_str_radix(digits, 16).map_err(|_| wrong());
        let parts: Vec<&str> = text.split(':').collect();
        let (domain, bus, rest) = match parts.as_slice() {
            [bus, rest] => (0, *bus, *rest),
            [domain, bus, rest] => (hex(domain)?, *bus, *rest),
            _ => return Err(wrong()),
        };
        let (device, function) = rest.split_once('.').ok_or_else(wrong)?;
        let small = |digits: &str| u8::try_from(hex(digits)?).map_err(|_| wrong());
        Ok(Self {
            domain,
            bus: small(bus)?,
            device: small(device)?,
            function: small(function)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let address: PciAddress = "00000000:DB:00.0".parse().unwrap();
        assert_eq!(address, "db:00.0".parse().unwrap());
        assert_eq!(address.to_string(), "0000:db:00.0");
        assert_eq!(address.nvml(), "00000000:DB:00.0");
        assert_eq!(address.nvml_legacy(), "0000:DB:00.0");
        assert!("0000:18:00".parse::<PciAddress>().is_err());
    }
}
