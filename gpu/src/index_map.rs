//! The published map from GRES index to device.
//!
//! Slurm numbers a node's GPUs by its own list, which is not NVML's order: some GPUs may be left
//! out, a sick one may be missing, a MIG device has a number of its own. Discovery publishes
//! the map, and whoever gets a GRES index from Slurm reads it.
//!
//! # Format
//!
//! ```text
//! sgpu-gpu-map 1
//! 0 file=/dev/nvidia0 minor=0 pci=0000:17:00.0 uuid=GPU-5a…
//! 1 file=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13 minor=1
//!   pci=0000:3d:00.0 uuid=MIG-77… parent=GPU-9c… gi=1 ci=0          (one line in the file)
//! ```
//!
//! The first line is the header with the version of the format. Each further line is one GRES
//! index and `key=value` words with blanks between, in any order:
//!
//! | key      | value                                                    | when               |
//! |----------|----------------------------------------------------------|--------------------|
//! | `file`   | device files with commas between, the GPU's own first    | always             |
//! | `minor`  | N of the GPU's `/dev/nvidiaN`                            | when known         |
//! | `pci`    | address of the GPU                                       | when known         |
//! | `uuid`   | of the GPU or the MIG device                             | when known         |
//! | `parent` | UUID of the GPU that a MIG device is a part of           | MIG, with gi and ci |
//! | `gi`     | GPU instance id                                          | MIG                |
//! | `ci`     | compute instance id                                      | MIG                |
//!
//! Empty lines and lines that begin with `#` are passed over, keys that a reader does not know
//! too. An index appears once; indices need not be in order or without holes.

use std::collections::BTreeSet;
use std::path::Path;

use crate::pci::PciAddress;
use crate::run_file::{self, RunFileError};

/// Where a node's map lies.
pub const DEFAULT_PATH: &str = "/run/sgpu/gpus";

const HEADER: &str = "sgpu-gpu-map 1";
/// More than thousands of GPUs need.
const MAX_BYTES: u64 = 1 << 20;

/// The map of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexMap {
    /// One entry per GRES index.
    pub entries: Vec<IndexEntry>,
}

/// One GRES index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The GRES index.
    pub index: u32,
    /// Device files, the GPU's own first.
    pub files: Vec<String>,
    /// N of the GPU's `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// Address of the GPU.
    pub pci: Option<PciAddress>,
    /// UUID of the GPU or MIG device.
    pub uuid: Option<String>,
    /// What a MIG device is a part of; `None` for a whole GPU.
    pub mig: Option<MigPart>,
}

/// What a MIG device is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigPart {
    /// UUID of the GPU.
    pub parent_uuid: String,
    /// GPU instance id.
    pub gpu_instance_id: u32,
    /// Compute instance id.
    pub compute_instance_id: u32,
}

/// Why a map cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IndexMapError {
    /// The text is no map.
    #[error("line {line}: {what}")]
    Parse {
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// An entry cannot be written in the format.
    #[error("index {index}: {what}")]
    Entry {
        /// The GRES index.
        index: u32,
        /// What is wrong with it.
        what: String,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] RunFileError),
}

impl IndexMap {
    /// The entry of a GRES index.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&IndexEntry> {
        self.entries.iter().find(|entry| entry.index == index)
    }

    /// The map as text.
    ///
    /// # Errors
    /// An index appears twice, an entry has no file, or a text in it cannot stand in the format.
    pub fn to_text(&self) -> Result<String, IndexMapError> {
        let mut text = String::with_capacity(self.entries.len().saturating_mul(160));
        text.push_str(HEADER);
        text.push('\n');
        for (at, entry) in self.entries.iter().enumerate() {
            let fail = |what: &str| IndexMapError::Entry {
                index: entry.index,
                what: what.into(),
            };
            if self
                .entries
                .iter()
                .take(at)
                .any(|before| before.index == entry.index)
            {
                return Err(fail("appears twice"));
            }
            if entry.files.is_empty() {
                return Err(fail("has no device file"));
            }
            if !entry
                .files
                .iter()
                .all(|file| is_word(file) && !file.contains(','))
            {
                return Err(fail(
                    "has a device file that is empty or has a blank or comma in it",
                ));
            }
            let parent = entry.mig.as_ref().map(|part| &part.parent_uuid);
            if !entry.uuid.iter().chain(parent).all(|uuid| is_word(uuid)) {
                return Err(fail("has a UUID that is empty or has a blank in it"));
            }
            text.push_str(&format!("{} file={}", entry.index, entry.files.join(",")));
            if let Some(minor) = entry.minor {
                text.push_str(&format!(" minor={minor}"));
            }
            if let Some(pci) = entry.pci {
                text.push_str(&format!(" pci={pci}"));
            }
            if let Some(uuid) = &entry.uuid {
                text.push_str(&format!(" uuid={uuid}"));
            }
            if let Some(part) = &entry.mig {
                text.push_str(&format!(
                    " parent={} gi={} ci={}",
                    part.parent_uuid, part.gpu_instance_id, part.compute_instance_id
                ));
            }
            text.push('\n');
        }
        Ok(text)
    }

    /// The map that a text holds.
    ///
    /// # Errors
    /// The text is no map; the error names the line.
    pub fn parse(text: &str) -> Result<Self, IndexMapError> {
        let mut map = Self::default();
        let mut lines = text.lines().zip(1usize..);
        match lines.next() {
            Some((HEADER, _)) => {}
            found => {
                let what = format!("the header {HEADER:?} is missing: {:?}", found.map(|l| l.0));
                return Err(IndexMapError::Parse { line: 1, what });
            }
        }
        let mut seen = BTreeSet::new();
        for (content, line) in lines {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let fail = |what: String| IndexMapError::Parse { line, what };
            let entry = parse_entry(content).map_err(fail)?;
            if !seen.insert(entry.index) {
                return Err(fail(format!("index {} appears twice", entry.index)));
            }
            map.entries.push(entry);
        }
        Ok(map)
    }

    /// Reads a map file.
    ///
    /// # Errors
    /// It cannot be read, is unreasonably large, or holds no map.
    pub fn read(path: &Path) -> Result<Self, IndexMapError> {
        Self::parse(&run_file::read(path, MAX_BYTES)?)
    }

    /// Writes a map file, see [`run_file::write`].
    ///
    /// # Errors
    /// The map does not fit the format, or file or folder fail.
    pub fn write(&self, path: &Path) -> Result<(), IndexMapError> {
        let text = self.to_text()?;
        Ok(run_file::write(path, &text)?)
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn parse_entry(content: &str) -> Result<IndexEntry, String> {
    fn number(key: &str, text: &str) -> Result<u32, String> {
        text.parse()
            .map_err(|_| format!("{key} is no number: {text:?}"))
    }
    fn once<T>(slot: &mut Option<T>, key: &str, value: T) -> Result<(), String> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(format!("{key} appears twice")),
        }
    }
    let mut words = content.split_whitespace();
    let index = number("the index", words.next().unwrap_or_default())?;
    let (mut files, mut minor, mut pci, mut uuid) = (None, None, None, None);
    let (mut parent, mut gi, mut ci) = (None, None, None);
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word:?} is no key=value"))?;
        if value.is_empty() {
            return Err(format!("{key} has no value"));
        }
        match key {
            "file" => {
                let list: Vec<String> = value.split(',').map(str::to_owned).collect();
                if list.iter().any(String::is_empty) {
                    return Err("file has an empty name in it".into());
                }
                once(&mut files, key, list)?;
            }
            "minor" => once(&mut minor, key, number(key, value)?)?,
            "pci" => {
                let address = value
                    .parse::<PciAddress>()
                    .map_err(|error| error.to_string())?;
                once(&mut pci, key, address)?;
            }
            "uuid" => once(&mut uuid, key, value.to_owned())?,
            "parent" => once(&mut parent, key, value.to_owned())?,
            "gi" => once(&mut gi, key, number(key, value)?)?,
            "ci" => once(&mut ci, key, number(key, value)?)?,
            _ => {}
        }
    }
    let mig = match (parent, gi, ci) {
        (None, None, None) => None,
        (Some(parent_uuid), Some(gpu_instance_id), Some(compute_instance_id)) => Some(MigPart {
            parent_uuid,
            gpu_instance_id,
            compute_instance_id,
        }),
        _ => return Err("parent, gi and ci belong together".into()),
    };
    let files = files.ok_or("file is missing")?;
    Ok(IndexEntry {
        index,
        files,
        minor,
        pci,
        uuid,
        mig,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> IndexMap {
        let pci = |text: &str| text.parse().ok();
        IndexMap {
            entries: vec![
                IndexEntry {
                    index: 0,
                    files: vec!["/dev/nvidia0".into()],
                    minor: Some(0),
                    pci: pci("0000:17:00.0"),
                    uuid: Some("GPU-1".into()),
                    mig: None,
                },
                IndexEntry {
                    index: 1,
                    files: vec![
                        "/dev/nvidia1".into(),
                        "/dev/nvidia-caps/nvidia-cap12".into(),
                        "/dev/nvidia-caps/nvidia-cap13".into(),
                    ],
                    minor: Some(1),
                    pci: pci("0000:3d:00.0"),
                    uuid: Some("MIG-2".into()),
                    mig: Some(MigPart {
                        parent_uuid: "GPU-3".into(),
                        gpu_instance_id: 1,
                        compute_instance_id: 0,
                    }),
                },
            ],
        }
    }

    const TEXT: &str = "sgpu-gpu-map 1\n\
        0 file=/dev/nvidia0 minor=0 pci=0000:17:00.0 uuid=GPU-1\n\
        1 file=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13 minor=1 \
        pci=0000:3d:00.0 uuid=MIG-2 parent=GPU-3 gi=1 ci=0\n";

    #[test]
    fn the_text() {
        assert_eq!(sample().to_text().unwrap(), TEXT);
        assert_eq!(IndexMap::parse(TEXT).unwrap(), sample());
        assert_eq!(sample().get(1).unwrap().minor, Some(1));
        let more = "sgpu-gpu-map 1\n\n# why\n 7 numa=3 file=/dev/x\n";
        assert_eq!(IndexMap::parse(more).unwrap().entries[0].index, 7);
    }

    #[test]
    fn errors_name_the_line() {
        for (body, line, what) in [
            ("", 1, "header"),
            ("sgpu-gpu-map 2\n", 1, "header"),
            (
                "sgpu-gpu-map 1\n0 file=/dev/x\nx file=/dev/y\n",
                3,
                "index is no number",
            ),
            ("sgpu-gpu-map 1\n0 minor=0\n", 2, "file is missing"),
            (
                "sgpu-gpu-map 1\n0 file=/dev/x\n\n0 file=/dev/y\n",
                4,
                "twice",
            ),
            ("sgpu-gpu-map 1\n0 file=/dev/x gi=1\n", 2, "belong together"),
            ("sgpu-gpu-map 1\n0 file=/dev/x pci=nowhere\n", 2, "PCI"),
            (
                "sgpu-gpu-map 1\n0 file=/dev/x minor=-1\n",
                2,
                "minor is no number",
            ),
            ("sgpu-gpu-map 1\n0 file=/dev/x word\n", 2, "key=value"),
            ("sgpu-gpu-map 1\n0 file=/dev/x uuid=\n", 2, "no value"),
            ("sgpu-gpu-map 1\n0 file=/dev/x file=/dev/y\n", 2, "twice"),
            ("sgpu-gpu-map 1\n0 file=/dev/x,\n", 2, "empty name"),
        ] {
            let error = IndexMap::parse(body).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn refuses_what_the_format_cannot_hold() {
        let mut twice = sample();
        twice.entries[1].index = 0;
        assert!(twice.to_text().is_err());
        for bad in ["", "a b", "a\nb"] {
            let mut map = sample();
            map.entries[0].uuid = Some(bad.into());
            assert!(map.to_text().is_err());
            let mut map = sample();
            map.entries[0].files = vec![bad.into()];
            assert!(map.to_text().is_err());
        }
        let mut map = sample();
        map.entries[0].files.clear();
        assert!(map.to_text().is_err());
    }

    #[test]
    fn writes_and_reads() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("sgpu/gpus");
        sample().write(&path).unwrap();
        assert_eq!(IndexMap::read(&path).unwrap(), sample());
        let missing = IndexMap::read(&root.path().join("none")).unwrap_err();
        assert!(matches!(missing, IndexMapError::File(_)), "{missing}");
    }

    fn word() -> impl Strategy<Value = String> {
        "[A-Za-z0-9/_.=-]{1,20}"
    }

    fn entry() -> impl Strategy<Value = IndexEntry> {
        (
            prop::collection::vec(word(), 1..4),
            any::<Option<u32>>(),
            prop::option::of((any::<u32>(), any::<u8>(), 0u8..32, 0u8..8)),
            prop::option::of(word()),
            prop::option::of((word(), any::<u32>(), any::<u32>())),
        )
            .prop_map(|(files, minor, pci, uuid, mig)| IndexEntry {
                index: 0,
                files,
                minor,
                pci: pci.and_then(|(a, b, c, d)| PciAddress::new(a, b, c, d)),
                uuid,
                mig: mig.map(
                    |(parent_uuid, gpu_instance_id, compute_instance_id)| MigPart {
                        parent_uuid,
                        gpu_instance_id,
                        compute_instance_id,
                    },
                ),
            })
    }

    proptest! {
        #[test]
        fn print_and_parse(entries in prop::collection::vec(entry(), 0..10)) {
            let entries = entries
                .into_iter()
                .zip(0..)
                .map(|(entry, index)| IndexEntry { index, ..entry })
                .collect();
            let map = IndexMap { entries };
            prop_assert_eq!(IndexMap::parse(&map.to_text().unwrap()).unwrap(), map);
        }

        #[test]
        fn never_panics(body in "(.|\n){0,120}") {
            let _ = IndexMap::parse(&body);
            let _ = IndexMap::parse(&format!("sgpu-gpu-map 1\n{body}"));
        }
    }
}
