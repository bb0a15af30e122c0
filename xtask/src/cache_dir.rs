//! Where the cache that clones share is: the one home of that rule. tests/harness has this file as a module
//! of its own too, so it needs nothing but the standard library.

use std::path::PathBuf;

/// The cache folder, from SGPU_CACHE, XDG_CACHE_HOME or HOME, in this order. Relative values of
/// XDG_CACHE_HOME are ignored, as its specification asks.
pub(crate) fn find(var: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(own) = var("SGPU_CACHE").filter(|path| path.is_absolute()) {
        return Some(own);
    }
    if let Some(xdg) = var("XDG_CACHE_HOME").filter(|path| path.is_absolute()) {
        return Some(xdg.join("sgpu"));
    }
    var("HOME")
        .filter(|path| path.is_absolute())
        .map(|home| home.join(".cache/sgpu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Option<PathBuf> {
        find(|name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, v)| PathBuf::from(v))
        })
    }

    #[test]
    fn the_cache_follows_xdg() {
        assert_eq!(of(&[("HOME", "/h")]), Some("/h/.cache/sgpu".into()));
        assert_eq!(
            of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]),
            Some("/x/sgpu".into())
        );
        assert_eq!(
            of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]),
            Some("/h/.cache/sgpu".into())
        );
        assert_eq!(
            of(&[("SGPU_CACHE", "/c"), ("HOME", "/h")]),
            Some("/c".into())
        );
        assert_eq!(of(&[]), None);
    }
}
