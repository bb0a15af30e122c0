//! Core files.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Whether a file begins as an ELF file of type ET_CORE.
fn is_core(path: &Path) -> bool {
    let mut head = [0; 18];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.starts_with(b"\x7fELF") && head.get(16..) == Some(&[4, 0])
}

/// Core files under a folder, whatever the kernel's core_pattern calls them.
pub(crate) fn find(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() && is_core(&entry.path()) => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
