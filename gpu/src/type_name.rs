//! The names by which Slurm knows a GPU.
//!
//! Slurm matches a `Type=` of gres.conf or of a job against the type that discovery reports, so
//! the result has to be the very one that Slurm's own plugin makes. This is the one place that
//! makes it.

use crate::model::{Gpu, MigAttributes, MigInstance};

/// How the profile of a MIG device is found; Slurm changed it between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigNaming {
    /// 22.05: from the attributes, memory rounded to the nearest GiB, and no `1c.` for a compute
    /// instance that is smaller than its GPU instance.
    Attributes,
    /// 23.02 and later: what follows `MIG ` in NVML's name of the device; failing that from the
    /// attributes, memory rounded up to the next GiB, with the `1c.`.
    DeviceName,
}

/// Slurm's GRES type for NVML's name of a GPU: lower case, `_` for each blank.
///
/// ```
/// assert_eq!(gpu::type_name::gres_type("NVIDIA H100 80GB HBM3"), "nvidia_h100_80gb_hbm3");
/// ```
#[must_use]
pub fn gres_type(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == ' ' {
                '_'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
}

/// Slurm's GRES type of a MIG device: the GPU's type up to its first `-`, and the profile.
#[must_use]
pub fn mig_gres_type(gpu_name: &str, instance: &MigInstance, naming: MigNaming) -> String {
    let whole = gres_type(gpu_name);
    let base = whole.split('-').next().unwrap_or_default();
    format!("{base}_{}", profile(instance, naming))
}

/// Profile of a MIG device as the release has it.
fn profile(instance: &MigInstance, naming: MigNaming) -> String {
    let attributes = || {
        instance
            .attributes
            .map(|made_of| profile_from(&made_of, naming))
    };
    let name = || instance.nvml_name.as_deref().and_then(profile_in_name);
    let found = match naming {
        MigNaming::Attributes => attributes().or_else(name),
        MigNaming::DeviceName => name().or_else(attributes),
    };
    found.unwrap_or_else(|| instance.profile.clone())
}

/// Profile in NVML's name of a MIG device: what follows `MIG `.
pub(crate) fn profile_in_name(name: &str) -> Option<String> {
    let name = gres_type(name);
    let (_, profile) = name.split_once("mig_")?;
    (!profile.is_empty()).then(|| profile.to_owned())
}

/// Profile from a MIG device's attributes.
pub(crate) fn profile_from(made_of: &MigAttributes, naming: MigNaming) -> String {
    let slices = made_of.gpu_slices;
    match naming {
        MigNaming::Attributes => {
            format!(
                "{slices}g.{}gb",
                made_of.memory_mib.saturating_add(512) / 1024
            )
        }
        MigNaming::DeviceName => {
            let memory = made_of.memory_mib.div_ceil(1024);
            if made_of.compute_slices == slices {
                format!("{slices}g.{memory}gb")
            } else {
                format!("{}c.{slices}g.{memory}gb", made_of.compute_slices)
            }
        }
    }
}

/// The id by which `CUDA_VISIBLE_DEVICES` names a MIG device: its own UUID from driver 470.42.01
/// on, `MIG-<GPU's UUID>/<GPU instance>/<compute instance>` before.
#[must_use]
pub fn mig_unique_id(driver_version: &str, gpu_uuid: &str, instance: &MigInstance) -> String {
    if has_mig_uuids(driver_version) {
        instance.uuid.clone()
    } else {
        format!(
            "MIG-{gpu_uuid}/{}/{}",
            instance.gpu_instance_id, instance.compute_instance_id
        )
    }
}

/// Has each MIG device its own UUID under this driver? True from 470.42.01 on.
#[must_use]
pub fn has_mig_uuids(driver_version: &str) -> bool {
    let mut parts = driver_version.split('.').map(|part| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        part.get(..digits)
            .and_then(|part| part.parse::<u32>().ok())
            .unwrap_or(0)
    });
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next()) >= (470, 42, 1)
}

/// `/dev/nvidiaN`.
#[must_use]
pub fn device_file(minor: u32) -> String {
    format!("/dev/nvidia{minor}")
}

/// Slurm's file list of a MIG device: the GPU's device file and the two capability devices.
/// `None` when a minor number is unknown.
#[must_use]
pub fn mig_files(gpu: &Gpu, instance: &MigInstance) -> Option<String> {
    let (minor, gi, ci) = (gpu.minor?, instance.gi_minor?, instance.ci_minor?);
    Some(format!(
        "/dev/nvidia{minor},/dev/nvidia-caps/nvidia-cap{gi},/dev/nvidia-caps/nvidia-cap{ci}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(name: Option<&str>, attributes: Option<(u32, u32, u64)>) -> MigInstance {
        MigInstance {
            index: 0,
            uuid: "MIG-1234".into(),
            gpu_instance_id: 9,
            compute_instance_id: 0,
            profile: "1g.10gb".into(),
            gi_minor: Some(12),
            ci_minor: Some(13),
            memory_mib: None,
            nvml_name: name.map(str::to_owned),
            attributes: attributes.map(|(gpu_slices, compute_slices, memory_mib)| MigAttributes {
                gpu_slices,
                compute_slices,
                memory_mib,
            }),
        }
    }

    #[test]
    fn gpu_types() {
        assert_eq!(gres_type("NVIDIA H100 80GB HBM3"), "nvidia_h100_80gb_hbm3");
        assert_eq!(gres_type("Tesla V100-SXM2-16GB"), "tesla_v100-sxm2-16gb");
        assert_eq!(
            gres_type("NVIDIA RTX  6000 Ada Generation"),
            "nvidia_rtx__6000_ada_generation"
        );
        assert_eq!(gres_type(""), "");
    }

    #[test]
    fn mig_types_by_release() {
        let whole = instance(Some("NVIDIA A100-SXM4-40GB MIG 1g.5gb"), Some((1, 1, 4864)));
        for naming in [MigNaming::Attributes, MigNaming::DeviceName] {
            assert_eq!(
                mig_gres_type("NVIDIA A100-SXM4-40GB", &whole, naming),
                "nvidia_a100_1g.5gb"
            );
        }
        let part = instance(
            Some("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb"),
            Some((3, 1, 40320)),
        );
        let h100 = "NVIDIA H100 80GB HBM3";
        assert_eq!(
            mig_gres_type(h100, &part, MigNaming::DeviceName),
            "nvidia_h100_80gb_hbm3_1c.3g.40gb"
        );
        assert_eq!(
            mig_gres_type(h100, &part, MigNaming::Attributes),
            "nvidia_h100_80gb_hbm3_3g.39gb"
        );
        let media = instance(Some("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me"), None);
        assert_eq!(
            mig_gres_type(h100, &media, MigNaming::DeviceName),
            "nvidia_h100_80gb_hbm3_1g.10gb+me"
        );
    }

    #[test]
    fn attributes_stand_in_for_the_name() {
        let nameless = instance(Some("NVIDIA H100"), Some((3, 1, 40320)));
        assert_eq!(
            mig_gres_type("H100", &nameless, MigNaming::DeviceName),
            "h100_1c.3g.40gb"
        );
        let nothing = instance(None, None);
        assert_eq!(
            mig_gres_type("H100", &nothing, MigNaming::DeviceName),
            "h100_1g.10gb"
        );
        assert_eq!(
            mig_gres_type("H100", &nothing, MigNaming::Attributes),
            "h100_1g.10gb"
        );
    }

    #[test]
    fn rounding_differs() {
        let made_of = |memory_mib| MigAttributes {
            gpu_slices: 1,
            compute_slices: 1,
            memory_mib,
        };
        for (mib, nearest, up) in [
            (9728, "10", "10"),
            (4750, "5", "5"),
            (10240, "10", "10"),
            (11776, "12", "12"),
            (11775, "11", "12"),
            (20096, "20", "20"),
            (4608, "5", "5"),
        ] {
            assert_eq!(
                profile_from(&made_of(mib), MigNaming::Attributes),
                format!("1g.{nearest}gb")
            );
            assert_eq!(
                profile_from(&made_of(mib), MigNaming::DeviceName),
                format!("1g.{up}gb")
            );
        }
    }

    #[test]
    fn unique_ids_by_driver() {
        let mig = instance(None, None);
        for new in [
            "470.42.01",
            "470.57.02",
            "535.104.12",
            "550.54.15",
            "1000.1",
        ] {
            assert_eq!(mig_unique_id(new, "GPU-1", &mig), "MIG-1234", "{new}");
        }
        for old in [
            "450.80.02",
            "470.42.00",
            "460.106.00",
            "470.41",
            "470",
            "",
            "x",
        ] {
            assert_eq!(mig_unique_id(old, "GPU-1", &mig), "MIG-GPU-1/9/0", "{old}");
        }
    }
}
