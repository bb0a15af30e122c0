//! The cfgs that name a Slurm release, for the `build.rs` of crates that depend on `slurm-headers`.
//!
//! `slurm-headers` learns the release from Slurm's own headers and hands it on as metadata of its
//! `links = "slurm"` key. That metadata reaches direct dependents only, so each crate that cares
//! depends on `slurm-headers` itself and has a `build.rs` of one line: `slurm_headers_cfg::emit()`.
//!
//! - `slurm_public`: bindings to `spank.h` and `slurm.h` were generated;
//! - `slurm_internal`: bindings to the internal headers were generated;
//! - `slurm_ge = "24.11"`: the headers are of that release or a later one.
#![forbid(unsafe_code)]

/// Every release that a `slurm_ge` cfg may name, oldest first. Slurm's releases are spaced by this
/// list until 26.05; one that came later is also `slurm_ge` of all of these.
pub const RELEASES: [&str; 10] = [
    "22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05", "26.11", "27.05",
];

/// Packs a release or full version as Slurm's `SLURM_VERSION_NUM(major, minor, micro)` does.
#[must_use]
pub const fn version_number(major: u32, minor: u32, micro: u32) -> u32 {
    (major << 16) | (minor << 8) | micro
}

/// The releases of [`RELEASES`] that `number` (a packed version) is at least.
pub fn reached(number: u32) -> impl Iterator<Item = &'static str> {
    RELEASES.into_iter().filter(move |release| {
        release
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .is_some_and(|(major, minor)| number >= version_number(major, minor, 0))
    })
}

/// A packed version in words, `24.11.5`.
#[must_use]
pub fn version_words(number: u32) -> String {
    format!(
        "{}.{:02}.{}",
        number >> 16,
        (number >> 8) & 0xff,
        number & 0xff
    )
}

/// Declares the cfgs to the compiler, so that a mistyped one is an error.
pub fn declare() {
    println!("cargo::rustc-check-cfg=cfg(slurm_public)");
    println!("cargo::rustc-check-cfg=cfg(slurm_internal)");
    let values = RELEASES.map(|release| format!("\"{release}\"")).join(", ");
    println!("cargo::rustc-check-cfg=cfg(slurm_ge, values({values}))");
}

/// Sets the cfgs of the given release.
pub fn set(number: u32, public: bool, internal: bool) {
    for release in reached(number) {
        println!("cargo::rustc-cfg=slurm_ge=\"{release}\"");
    }
    if public {
        println!("cargo::rustc-cfg=slurm_public");
    }
    if internal {
        println!("cargo::rustc-cfg=slurm_internal");
    }
}

/// Declares the cfgs, and sets those of the release that `slurm-headers` was built from, if any.
pub fn emit() {
    declare();
    let metadata = |key: &str| std::env::var(format!("DEP_SLURM_{key}")).ok();
    if let Some(number) = metadata("VERSION_NUMBER").and_then(|text| text.parse().ok()) {
        set(
            number,
            metadata("PUBLIC").is_some(),
            metadata("INTERNAL").is_some(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_reaches_itself_and_all_before_it() {
        // SLURM_VERSION_NUMBER of 24.11.5 as its slurm_version.h prints it.
        assert_eq!(
            reached(0x18_0b_05).collect::<Vec<_>>(),
            ["22.05", "23.02", "23.11", "24.05", "24.11"]
        );
        assert_eq!(reached(0x16_05_08).collect::<Vec<_>>(), ["22.05"]);
        assert_eq!(reached(0x14_0b_09).count(), 0);
    }

    #[test]
    fn versions_print_as_slurm_prints_them() {
        assert_eq!(version_words(0x16_05_08), "22.05.8");
        assert_eq!(version_words(version_number(24, 11, 5)), "24.11.5");
    }
}
