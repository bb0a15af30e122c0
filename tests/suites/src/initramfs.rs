//! The file system that a guest starts with: an archive in the format `newc`, which the kernel unpacks
//! (`Documentation/driver-api/early-userspace/buffer-format.rst` of Linux).

use std::path::Path;

/// An archive in the making.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

impl Archive {
    /// A folder.
    pub fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, (0, 0), &[]);
    }

    /// A file, and the folders above it.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        let above: Vec<&Path> = Path::new(path).ancestors().skip(1).collect();
        for folder in above.into_iter().rev() {
            let folder = folder.to_string_lossy();
            if !folder.trim_matches('/').is_empty() {
                self.folder(&folder);
            }
        }
        self.entry(path, PROGRAM, (0, 0), content);
    }

    /// A character device.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, CHARACTER_DEVICE, (major, minor), &[]);
    }

    /// The archive.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let name = path.trim_start_matches('/');
        let size = u32::try_from(content.len()).expect("a file below 4 GiB");
        let length = u32::try_from(name.len() + 1).expect("a short name");
        let head = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            device.0,
            device.1,
            length,
            0,
        ];
        self.bytes.extend(b"070701");
        for number in head {
            self.bytes.extend(format!("{number:08X}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
