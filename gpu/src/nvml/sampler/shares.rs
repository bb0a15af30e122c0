//! What part of its GPU each MIG device is.

use super::again::Lack;
use super::poll::Asking;
use super::sample::MigShare;
use crate::nvml::error::Error;
use crate::nvml::session::Device;

/// The MIG devices' parts, in NVML's order; none when MIG is off. A MIG device that does not say
/// is left out, with a note.
///
/// # Errors
/// The GPU or NVML is gone.
pub(super) fn mig_shares(
    device: &Device<'_>,
    lack: &mut Lack,
    asking: &mut Asking,
) -> Result<Vec<MigShare>, Error> {
    let mut shares = Vec::new();
    let enabled = asking
        .ask(lack, || device.mig_mode())?
        .is_some_and(|mode| mode.current);
    if !enabled {
        return Ok(shares);
    }
    let of = asking.soft(device.max_mig_devices())?.unwrap_or(0);
    for index in 0..of {
        if let Some(Some(instance)) = asking.soft(device.mig_device(index))? {
            shares.extend(asking.soft(share(&instance, of))?);
        }
    }
    Ok(shares)
}

fn share(instance: &Device<'_>, of: u32) -> Result<MigShare, Error> {
    Ok(MigShare {
        gpu_instance_id: instance.gpu_instance_id()?,
        compute_instance_id: instance.compute_instance_id()?,
        slices: instance.attributes()?.compute_slices,
        of,
    })
}
