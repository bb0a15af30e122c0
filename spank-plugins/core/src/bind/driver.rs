//! The GPUs by the driver's word, where no map is published: `/proc/driver/nvidia/gpus`.

use std::path::Path;

use gpu::PciAddress;
use gpu::index_map::{IndexEntry, IndexMap};

/// Where the driver tells.
pub const DEFAULT_PATH: &str = "/proc/driver/nvidia/gpus";

/// A map by minor numbers: with stock's gpu/nvml, or a gres.conf that lists the files in order, GRES index
/// N is `/dev/nvidiaN`. Whole GPUs only.
#[must_use]
pub fn map(folder: &Path) -> IndexMap {
    let mut entries: Vec<IndexEntry> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let address: PciAddress = entry.file_name().to_str()?.parse().ok()?;
            let text = std::fs::read_to_string(entry.path().join("information")).ok()?;
            one(address, &text)
        })
        .collect();
    entries.sort_by_key(|entry| entry.index);
    IndexMap { entries }
}

fn one(address: PciAddress, text: &str) -> Option<IndexEntry> {
    let field = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find_map(|(key, value)| (key.trim() == name).then(|| value.trim()))
    };
    let minor: u32 = field("Device Minor")?.parse().ok()?;
    Some(IndexEntry {
        index: minor,
        files: vec![format!("/dev/nvidia{minor}")],
        minor: Some(minor),
        pci: Some(address),
        uuid: field("GPU UUID").map(str::to_owned),
        mig: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_minor() {
        let root = tempfile::tempdir().unwrap();
        for (address, minor) in [("0000:17:00.0", 1), ("0000:65:00.0", 0)] {
            let folder = root.path().join(address);
            std::fs::create_dir_all(&folder).unwrap();
            let text = format!(
                "Model: \t\t NVIDIA H100\nIRQ:   \t\t 0\nGPU UUID: \t GPU-{minor}\n\
                 Bus Location: \t {address}\nDevice Minor: \t {minor}\n"
            );
            std::fs::write(folder.join("information"), text).unwrap();
        }
        std::fs::create_dir_all(root.path().join("0000:99:00.0")).unwrap();
        let map = map(root.path());
        let seen: Vec<_> = map
            .entries
            .iter()
            .map(|gpu| {
                (
                    gpu.index,
                    gpu.files[0].as_str(),
                    gpu.pci.unwrap().to_string(),
                    gpu.uuid.as_deref().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (0, "/dev/nvidia0", "0000:65:00.0".to_owned(), "GPU-0"),
                (1, "/dev/nvidia1", "0000:17:00.0".to_owned(), "GPU-1"),
            ]
        );
        assert!(super::map(Path::new("/nonexistent")).entries.is_empty());
    }
}
