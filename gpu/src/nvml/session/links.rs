//! A GPU's NVLinks.

use super::Device;
use super::pci::{address, blank_pci};
use crate::model::{NvLink, RemoteEnd};
use crate::nvml::error::{Error, code};
use crate::nvml::symbols::Call;
use crate::pci::PciAddress;

impl Device<'_> {
    /// Is an NVLink up? NVML answers "Invalid Argument" for a link that the GPU lacks and "Not
    /// Supported" on a board without NVLink.
    ///
    /// # Errors
    /// NVML's.
    pub fn nvlink_active(&self, link: u32) -> Result<bool, Error> {
        let function = self.session.symbols.nvlink_state()?;
        let mut state = 0;
        self.call(Call::DeviceGetNvLinkState, || {
            // SAFETY: the handle is the session's; NVML writes one enum of unsigned int's size.
            unsafe { function(self.handle.0, link, &raw mut state) }
        })?;
        Ok(state == 1)
    }

    /// Address of an NVLink's far end; `None` when NVML gives none that means anything.
    ///
    /// # Errors
    /// NVML's.
    pub fn nvlink_remote_pci(&self, link: u32) -> Result<Option<PciAddress>, Error> {
        let function = self.session.symbols.nvlink_remote_pci()?;
        let mut record = blank_pci();
        self.call(Call::DeviceGetNvLinkRemotePciInfo, || {
            // SAFETY: the handle is the session's; NVML writes one record, of which the older
            // version of the function knows the first part only.
            unsafe { function(self.handle.0, link, &raw mut record) }
        })?;
        let nowhere = PciAddress {
            domain: 0,
            bus: 0,
            device: 0,
            function: 0,
        };
        Ok(address(&record).filter(|address| *address != nowhere))
    }

    /// What an NVLink leads to, `address` being where it does; `None` when NVML does not know.
    ///
    /// # Errors
    /// NVML's.
    pub fn nvlink_remote_end(
        &self,
        link: u32,
        address: Option<PciAddress>,
    ) -> Result<Option<RemoteEnd>, Error> {
        let function = self.session.symbols.nvlink_remote_type()?;
        let mut kind = u32::MAX;
        self.call(Call::DeviceGetNvLinkRemoteDeviceType, || {
            // SAFETY: the handle is the session's; NVML writes one enum of unsigned int's size.
            unsafe { function(self.handle.0, link, &raw mut kind) }
        })?;
        Ok(match (kind, address) {
            (0, Some(address)) => Some(RemoteEnd::Gpu(address)),
            (1, _) => Some(RemoteEnd::Cpu),
            (2, address) => Some(RemoteEnd::Switch(address)),
            _ => None,
        })
    }

    /// The GPU's NVLinks, those that exist; `remote_end` says what a link that is up leads to.
    pub(crate) fn nvlinks(
        &self,
        mut remote_end: impl FnMut(&Self, u32) -> RemoteEnd,
        mut trouble: impl FnMut(Error),
    ) -> Vec<NvLink> {
        /// Links of today's largest GPUs, and room for those to come.
        const KNOWN: u32 = 18;
        const LIMIT: u32 = 36;
        let mut links = Vec::new();
        for link in 0..LIMIT {
            match self.nvlink_active(link) {
                Ok(active) => {
                    let remote = if active {
                        remote_end(self, link)
                    } else {
                        RemoteEnd::Unknown
                    };
                    links.push(NvLink {
                        link,
                        active,
                        remote,
                    });
                }
                Err(error) if error.is_unsupported() => break,
                Err(error) => {
                    if error.code() != Some(code::INVALID_ARGUMENT) {
                        trouble(error);
                    }
                    if link >= KNOWN.saturating_sub(1) {
                        break;
                    }
                }
            }
        }
        links
    }
}
