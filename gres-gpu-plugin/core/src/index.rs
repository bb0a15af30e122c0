//! Which GPU stands behind a gres index.
//!
//! Slurm numbers the devices of a node in its own order, after merging gres.conf with what the driver
//! found: with four of eight GPUs configured, a GPU dropped, or MIG, that is not NVML's order. The
//! device file is what both sides know.

/// The N of `/dev/nvidiaN`; `None` for other files, those of MIG capabilities among them.
#[must_use]
pub fn minor_of(path: &str) -> Option<u32> {
    let digits = path.strip_prefix("/dev/nvidia")?;
    // `parse` would take a sign.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gpus_have_a_minor() {
        assert_eq!(minor_of("/dev/nvidia0"), Some(0));
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
