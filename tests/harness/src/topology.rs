//! A node's processors, as hwloc's synthetic descriptions name them.

use crate::{Error, Result};

/// Sockets, cores and threads, as slurm.conf has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Packages of the machine.
    pub sockets: u32,
    /// Cores of each package.
    pub cores: u32,
    /// Threads of each core.
    pub threads: u32,
}

impl Topology {
    /// Reads a synthetic description, `pack:2 numa:1 core:64 pu:1`.
    ///
    /// # Errors
    /// When it is none, or has no processing units.
    pub fn parse(hwloc: &str) -> Result<Self> {
        let bad = || {
            Error::Unusable(format!(
                "`{hwloc}` is no hwloc description like `pack:2 core:8 pu:1`"
            ))
        };
        let mut found = Self {
            sockets: 1,
            cores: 1,
            threads: 0,
        };
        // hwloc 2 attaches memory in brackets: `pack:2 [numa] core:8 pu:1`.
        for level in hwloc
            .split_whitespace()
            .filter(|level| !level.starts_with('['))
        {
            let (kind, count) = level.split_once(':').ok_or_else(bad)?;
            let count = count.split('(').next().unwrap_or_default();
            let count: u32 = count
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .ok_or_else(bad)?;
            match kind.to_ascii_lowercase().as_str() {
                "pack" | "package" | "socket" => found.sockets = count * found.cores,
                "pu" => found.threads = count,
                _ => found.cores *= count,
            }
            if matches!(kind, "pack" | "package" | "socket") {
                found.cores = 1;
            }
        }
        if found.threads == 0 {
            Err(bad())
        } else {
            Ok(found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_multiply() {
        let of = |text| {
            Topology::parse(text)
                .map(|t| (t.sockets, t.cores, t.threads))
                .ok()
        };
        assert_eq!(of("pack:2 numa:1 core:64 pu:1"), Some((2, 64, 1)));
        assert_eq!(of("pack:2 numa:4 l3:2 core:8 pu:2"), Some((2, 64, 2)));
        assert_eq!(of("numa:2 pack:1 core:4 pu:1"), Some((2, 4, 1)));
        assert_eq!(of("pack:1 [numa] core:4 pu:1"), Some((1, 4, 1)));
        assert_eq!(of("pack:2 core:4"), None);
        assert_eq!(of("pack:0 core:4 pu:1"), None);
        assert_eq!(of("two sockets"), None);
    }
}
