//! Which GPU stands behind a gres index.
//!
//! Slurm numbers the devices of a node in its own order, after merging gres.conf with what the driver
//! found: with four of eight GPUs configured, a GPU dropped, or MIG, that is not NVML's order. The
//! device files are what both sides know.

use std::fmt;

use gpu::mig_minors::MigMinors;

/// A GPU, or a MIG device within it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The N of the GPU's `/dev/nvidiaN`.
    pub minor: u32,
    /// GPU instance and compute instance id of a MIG device; `None` for a whole GPU.
    pub mig: Option<(u32, u32)>,
}

impl Place {
    /// A number for it that no other place of the node has, never 0, the same as long as the driver is
    /// loaded.
    #[must_use]
    pub fn id(&self) -> u64 {
        const WHOLE: u64 = 0xffff;
        let (gi, ci) = self.mig.map_or((WHOLE, WHOLE), |(gi, ci)| {
            (u64::from(gi) & WHOLE, u64::from(ci) & WHOLE)
        });
        (u64::from(self.minor).saturating_add(1) << 32) | (gi << 16) | ci
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/dev/nvidia{}", self.minor)?;
        match self.mig {
            Some((gi, ci)) => write!(f, " MIG device {gi}/{ci}"),
            None => Ok(()),
        }
    }
}

/// A device file of Slurm's list, under its gres index. The files of a MIG device share an index: the
/// GPU's own and those of its two capabilities.
#[derive(Clone, Copy, Debug)]
pub struct DeviceFile<'a> {
    /// The gres index.
    pub index: usize,
    /// The file, `/dev/nvidia3`.
    pub path: &'a str,
}

/// What stands behind each gres index, up to the last that has a file of NVIDIA's; `None` for an index
/// that is none of our GPUs, or a MIG device that the table of capability devices does not know.
///
/// A MIG device is known by its capabilities: all MIG devices of a GPU have the GPU's own file too.
#[must_use]
pub fn places(files: &[DeviceFile<'_>], table: &MigMinors) -> Vec<Option<Place>> {
    let ours = |file: &&DeviceFile<'_>| {
        minor_of(file.path).is_some() || capability_of(file.path).is_some()
    };
    let Some(last) = files.iter().filter(ours).map(|file| file.index).max() else {
        return Vec::new();
    };
    (0..=last)
        .map(|index| {
            let paths = || {
                files
                    .iter()
                    .filter(move |file| file.index == index)
                    .map(|file| file.path)
            };
            let mut capabilities = paths().filter_map(capability_of).peekable();
            if capabilities.peek().is_none() {
                let minor = paths().find_map(minor_of)?;
                return Some(Place { minor, mig: None });
            }
            capabilities.find_map(|capability| {
                let place = table.place_of(capability)?;
                Some(Place {
                    minor: place.gpu_minor,
                    mig: Some((place.gpu_instance_id, place.compute_instance_id?)),
                })
            })
        })
        .collect()
}

/// The N of `/dev/nvidiaN`; `None` for other files.
fn minor_of(path: &str) -> Option<u32> {
    number_after(path, "/dev/nvidia")
}

/// The N of `/dev/nvidia-caps/nvidia-capN`.
fn capability_of(path: &str) -> Option<u32> {
    number_after(path, "/dev/nvidia-caps/nvidia-cap")
}

fn number_after(path: &str, prefix: &str) -> Option<u32> {
    let digits = path.strip_prefix(prefix)?;
    // `parse` would take a sign.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places_of(files: &[(usize, &str)]) -> Vec<Option<Place>> {
        let table = MigMinors::parse(
            "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n",
        );
        let files: Vec<_> = files
            .iter()
            .map(|(index, path)| DeviceFile {
                index: *index,
                path,
            })
            .collect();
        places(&files, &table)
    }

    fn whole(minor: u32) -> Option<Place> {
        Some(Place { minor, mig: None })
    }

    #[test]
    fn gpus_by_their_file() {
        assert_eq!(
            places_of(&[(0, "/dev/nvidia3"), (2, "/dev/nvidia0"), (3, "/dev/fpga0")]),
            [whole(3), None, whole(0)]
        );
        assert_eq!(places_of(&[(0, "/dev/fpga0")]), []);
    }

    #[test]
    fn mig_devices_by_their_capabilities() {
        // The last one is not in the table.
        let mig = |gi| {
            Some(Place {
                minor: 0,
                mig: Some((gi, 0)),
            })
        };
        assert_eq!(
            places_of(&[
                (0, "/dev/nvidia0"),
                (0, "/dev/nvidia-caps/nvidia-cap12"),
                (0, "/dev/nvidia-caps/nvidia-cap13"),
                (1, "/dev/nvidia0"),
                (1, "/dev/nvidia-caps/nvidia-cap21"),
                (1, "/dev/nvidia-caps/nvidia-cap22"),
                (2, "/dev/nvidia1"),
                (3, "/dev/nvidia0"),
                (3, "/dev/nvidia-caps/nvidia-cap99"),
            ]),
            [mig(1), mig(2), whole(1), None]
        );
    }

    #[test]
    fn ids_differ() {
        let all = [
            Place {
                minor: 0,
                mig: None,
            },
            Place {
                minor: 1,
                mig: None,
            },
            Place {
                minor: 0,
                mig: Some((0, 0)),
            },
            Place {
                minor: 0,
                mig: Some((1, 0)),
            },
            Place {
                minor: 0,
                mig: Some((0, 1)),
            },
        ];
        let ids: std::collections::BTreeSet<u64> = all.iter().map(Place::id).collect();
        assert_eq!(ids.len(), all.len());
        assert!(!ids.contains(&0));
    }

    #[test]
    fn other_files_are_no_gpus() {
        assert_eq!(minor_of("/dev/nvidia15"), Some(15));
        for other in [
            "/dev/nvidia",
            "/dev/nvidiactl",
            "/dev/nvidia+1",
            "/dev/nvidia-caps/nvidia-cap12",
            "/dev/nvidia99999999999",
            "/tmp/dev/nvidia0",
            "",
        ] {
            assert_eq!(minor_of(other), None, "{other}");
        }
    }
}
