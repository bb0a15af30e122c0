//! What a process sees of the machine: another view is a container.

use std::os::unix::fs::MetadataExt as _;

/// The root folder and the mount namespace.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct View {
    root: (u64, u64),
    mounts: u64,
}

impl View {
    /// Of this process; `None` where it is not to be seen, as in a container without /proc.
    pub(super) fn here() -> Option<Self> {
        let root = std::fs::metadata("/").ok()?;
        let mounts = std::fs::metadata("/proc/self/ns/mnt").ok()?;
        Some(Self {
            root: (root.dev(), root.ino()),
            mounts: mounts.ino(),
        })
    }
}
