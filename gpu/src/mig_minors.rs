//! The capability devices of MIG instances (`/dev/nvidia-caps/nvidia-capN`), from the table that NVIDIA's
//! kernel driver keeps of their minor numbers.

use std::io;
use std::path::Path;

/// A GPU instance, or a compute instance within it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct MigPlace {
    /// Minor number of the GPU, the N of `/dev/nvidiaN`.
    pub gpu_minor: u32,
    /// GPU instance id.
    pub gpu_instance_id: u32,
    /// Compute instance id; `None` for the GPU instance itself.
    pub compute_instance_id: Option<u32>,
}

/// Which capability device belongs to which instance. The driver lists all instances that there can be,
/// made or not, so the table is the same as long as the driver is loaded.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct MigMinors {
    /// Place, minor number.
    found: Vec<(MigPlace, u32)>,
}

impl MigMinors {
    /// Where the table is.
    pub const FILE: &'static str = "/proc/driver/nvidia-caps/mig-minors";

    /// Reads the table below `proc`, which is `/proc` but for tests.
    ///
    /// # Errors
    /// It cannot be read: there is no NVIDIA driver, or one that knows no MIG.
    pub fn read(proc: &Path) -> io::Result<Self> {
        std::fs::read_to_string(proc.join("driver/nvidia-caps/mig-minors"))
            .map(|text| Self::parse(&text))
    }

    /// Lines as `gpu0/gi1/access 12` and `gpu0/gi1/ci0/access 13`; others are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let mut parts = words.next()?.split('/');
            let minor = words.next()?.parse().ok()?;
            let gpu_minor = parts.next()?.strip_prefix("gpu")?.parse().ok()?;
            let gpu_instance_id = parts.next()?.strip_prefix("gi")?.parse().ok()?;
            let compute_instance_id = match parts.next()? {
                "access" => None,
                part => {
                    let ci = part.strip_prefix("ci")?.parse().ok()?;
                    (parts.next()? == "access").then_some(Some(ci))?
                }
            };
            let place = MigPlace {
                gpu_minor,
                gpu_instance_id,
                compute_instance_id,
            };
            parts.next().is_none().then_some((place, minor))
        };
        Self {
            found: text.lines().filter_map(line).collect(),
        }
    }

    /// The minor number of an instance's capability device: of the GPU instance itself with no `ci`.
    #[must_use]
    pub fn get(&self, gpu_minor: u32, gi: u32, ci: Option<u32>) -> Option<u32> {
        let wanted = MigPlace {
            gpu_minor,
            gpu_instance_id: gi,
            compute_instance_id: ci,
        };
        self.found
            .iter()
            .find(|(place, _)| *place == wanted)
            .map(|found| found.1)
    }

    /// The instance that a capability device belongs to.
    #[must_use]
    pub fn place_of(&self, minor: u32) -> Option<MigPlace> {
        self.found
            .iter()
            .find(|found| found.1 == minor)
            .map(|found| found.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_read(text in "(gpu|gi|ci|/|access| |[0-9]|\n|.){0,60}") {
            let minors = MigMinors::parse(&text);
            for (place, minor) in &minors.found {
                let MigPlace { gpu_minor, gpu_instance_id, compute_instance_id } = *place;
                prop_assert!(minors.get(gpu_minor, gpu_instance_id, compute_instance_id).is_some());
                prop_assert!(minors.place_of(*minor).is_some());
            }
        }
    }

    #[test]
    fn the_table() {
        let minors = MigMinors::parse(
            "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n\
             gpu10/gi1/access 1362\ngpu0/gi2/ci0/other 9\ngpu0/gi3/ci0/access\ngpu0/gix/access 1\n",
        );
        assert_eq!(minors.get(0, 1, None), Some(12));
        assert_eq!(minors.get(0, 1, Some(0)), Some(13));
        assert_eq!(minors.get(10, 1, None), Some(1362));
        assert_eq!(minors.get(0, 2, Some(0)), None);
        assert_eq!(minors.get(0, 3, Some(0)), None);
        assert_eq!(minors.found.len(), 3);
        let place = minors.place_of(13).unwrap();
        assert_eq!(
            (
                place.gpu_minor,
                place.gpu_instance_id,
                place.compute_instance_id
            ),
            (0, 1, Some(0))
        );
        assert_eq!(minors.place_of(12).unwrap().compute_instance_id, None);
        assert_eq!(minors.place_of(9), None);
    }
}
