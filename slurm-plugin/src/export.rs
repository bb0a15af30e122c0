//! The macros that make what Slurm looks up in a plugin. Entry points exist only through them: each
//! is guarded, each declares its fallback.

/// Exports `plugin_name`, `plugin_type` and `plugin_version`, which Slurm reads before anything else
/// (`src/common/plugin.c`, `_verify_syms`). The version is that of the headers, never another.
#[macro_export]
macro_rules! plugin_identity {
    (name: $name:literal, type: $type:literal, version: $version:expr $(,)?) => {
        /// What the plugin is, in words.
        #[unsafe(no_mangle)]
        pub static plugin_name: [u8; $name.len() + 1] = $crate::export::nul_terminated($name);
        /// The plugin's type, by which Slurm knows it.
        #[unsafe(no_mangle)]
        pub static plugin_type: [u8; $type.len() + 1] = $crate::export::nul_terminated($type);
        /// The Slurm release that the plugin was built for, packed as Slurm packs it.
        #[unsafe(no_mangle)]
        pub static plugin_version: u32 = $version;
    };
}

/// `text` as a C string in a static array of one byte more.
#[must_use]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
pub const fn nul_terminated<const N: usize>(text: &str) -> [u8; N] {
    assert!(text.len() + 1 == N, "the array is the text and its NUL");
    let (bytes, mut out, mut at) = (text.as_bytes(), [0; N], 0);
    while at < bytes.len() {
        out[at] = bytes[at];
        at += 1;
    }
    out
}

/// Exports hooks. Each runs under a [`guard`](crate::guard): a panic in its body, or a third one and
/// ever after, gives the value behind `fallback`.
///
/// ```ignore
/// slurm_plugin::hooks! {
///     /// Number of GPUs.
///     fn gpu_p_get_device_count(count: *mut u32), fallback () => { driver::device_count(count) }
/// }
/// ```
#[macro_export]
macro_rules! hooks {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $answer:ty)?, fallback $fallback:expr => $body:block
    )*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// Called by Slurm alone, with the arguments that its interface names; they may be NULL.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $answer)? {
            static HOOK: $crate::guard::Hook = $crate::guard::Hook::new(stringify!($name));
            HOOK.run($fallback, || $body)
        }
    )*};
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_end_in_nul() {
        assert_eq!(&super::nul_terminated::<9>("gpu/nvml"), b"gpu/nvml\0");
    }
}
