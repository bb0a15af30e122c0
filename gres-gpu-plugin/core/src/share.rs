//! What a GPU, or a MIG device as a part of it, shows of energy and power.

use gpu::nvml::{GpuSample, MigShare};

use crate::index::Place;

/// Counter and power of a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Energy since the driver was loaded, in mJ.
    pub energy_mj: u64,
    /// Power, in mW.
    pub power_mw: u32,
    /// The compute slices that it is of; 0 for a whole GPU.
    pub slices: u32,
}

/// The share of `place` in the GPU that it lies on; `None` when that GPU could not be read or has no
/// counter.
///
/// MIG devices have no counters of their own (NVML counts whole GPUs). A MIG device has as much of its
/// GPU's energy as it has of the GPU's compute slices: three sevenths with the profile 3g. Slices that no
/// device has are nobody's. The share does not depend on other devices, so it stays as they come and go.
pub fn share<E>(place: Place, gpus: &[Result<GpuSample, E>]) -> Option<Share> {
    let gpu = gpus
        .iter()
        .flatten()
        .find(|gpu| gpu.minor == Some(place.minor))?;
    let whole = Share {
        energy_mj: gpu.energy_mj?,
        power_mw: gpu.power_mw.unwrap_or(0),
        slices: 0,
    };
    let Some((gi, ci)) = place.mig else {
        return Some(whole);
    };
    let MigShare { slices, of, .. } = *gpu
        .mig_shares
        .iter()
        .find(|share| (share.gpu_instance_id, share.compute_instance_id) == (gi, ci))?;
    let part = |whole: u64| {
        let part = u128::from(whole)
            .checked_mul(u128::from(slices.min(of)))?
            .checked_div(u128::from(of))?;
        u64::try_from(part).ok()
    };
    Some(Share {
        energy_mj: part(whole.energy_mj)?,
        power_mw: u32::try_from(part(u64::from(whole.power_mw))?).ok()?,
        slices,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(minor: u32, energy_mj: Option<u64>) -> Result<GpuSample, ()> {
        let share = |gpu_instance_id, slices| MigShare {
            gpu_instance_id,
            compute_instance_id: 0,
            slices,
            of: 7,
        };
        Ok(GpuSample {
            index: 7,
            minor: Some(minor),
            uuid: String::new(),
            pci: gpu::PciAddress::new(0, 1, 0, 0).unwrap(),
            energy_mj,
            power_mw: Some(350_000),
            processes: Vec::new(),
            notes: Vec::new(),
            mig_shares: vec![share(1, 3), share(2, 1)],
        })
    }

    #[test]
    fn a_gpu_has_all_and_a_mig_device_its_slices() {
        let gpus = [
            Err(()),
            sample(3, Some(u64::MAX)),
            sample(4, Some(7_000_000)),
        ];
        let of = |minor, mig| share(Place { minor, mig }, &gpus).map(|s| (s.energy_mj, s.power_mw));
        assert_eq!(of(4, None), Some((7_000_000, 350_000)));
        assert_eq!(of(4, Some((1, 0))), Some((3_000_000, 150_000)));
        assert_eq!(of(4, Some((2, 0))), Some((1_000_000, 50_000)));
        // No such device, no such GPU, a counter at its end.
        assert_eq!(of(4, Some((3, 0))), None);
        assert_eq!(of(0, None), None);
        assert_eq!(of(3, Some((2, 0))), Some((u64::MAX / 7, 50_000)));
    }

    #[test]
    fn no_counter_no_share() {
        assert_eq!(
            share(
                Place {
                    minor: 0,
                    mig: None
                },
                &[sample(0, None)]
            ),
            None
        );
    }
}
