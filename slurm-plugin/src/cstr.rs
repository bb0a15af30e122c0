//! C strings that the host hands in.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int};

/// The text at `pointer`, `None` for NULL. What is not UTF-8 is replaced, not refused: job names and
/// the like are the user's bytes.
///
/// # Safety
/// `pointer` is NULL or points to a NUL-terminated string that stays as it is for `'a`.
#[must_use]
pub unsafe fn text<'a>(pointer: *const c_char) -> Option<Cow<'a, str>> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy())
}

/// The texts of an array of `count` C strings; NULL among them is passed over.
///
/// # Safety
/// `words` is NULL or an array of `count` pointers, each as for [`text`].
#[must_use]
pub unsafe fn words(count: c_int, words: *const *mut c_char) -> Vec<String> {
    let count = usize::try_from(count).unwrap_or(0);
    if words.is_null() {
        return Vec::new();
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    unsafe { std::slice::from_raw_parts(words, count) }
        .iter()
        // SAFETY: as above.
        .filter_map(|word| unsafe { text(*word) })
        .map(Cow::into_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_no_text_and_odd_bytes_are_replaced() {
        // SAFETY: NULL is allowed.
        let nothing = unsafe { text(std::ptr::null()) };
        assert_eq!(nothing, None);
        // SAFETY: a literal lives for ever.
        let plain = unsafe { text(c"gpu:high".as_ptr()) };
        assert_eq!(plain.as_deref(), Some("gpu:high"));
        // SAFETY: as above.
        let odd = unsafe { text(c"a\xffb".as_ptr()) };
        assert_eq!(odd.as_deref(), Some("a\u{fffd}b"));
    }
}
