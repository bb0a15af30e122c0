//! Memory that Slurm may free. It comes from Slurm's own allocator; no Rust allocation crosses the
//! border in either direction.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use slurm_headers::internal;

/// A string of Slurm's allocator, freed when dropped unless [handed over](SlurmString::into_raw).
#[derive(Debug)]
pub struct SlurmString(*mut c_char);

impl SlurmString {
    /// A copy of `text`, cut at its first NUL.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let text = text.split('\0').next().unwrap_or_default();
        let copy = CString::new(text).unwrap_or_default();
        // SAFETY: slurm_xstrdup copies a NUL-terminated string; it ends the process rather than
        // return NULL when memory runs out, as all of Slurm does.
        Self(unsafe { internal::slurm_xstrdup(copy.as_ptr()) })
    }

    /// Takes over a string that Slurm gave away, NULL included.
    ///
    /// # Safety
    /// `pointer` is NULL or a NUL-terminated string of Slurm's allocator that nobody else frees.
    #[must_use]
    pub unsafe fn from_raw(pointer: *mut c_char) -> Self {
        Self(pointer)
    }

    /// The pointer, which stays ours.
    #[must_use]
    pub fn as_ptr(&self) -> *mut c_char {
        self.0
    }

    /// The pointer, for Slurm to free.
    #[must_use]
    pub fn into_raw(mut self) -> *mut c_char {
        std::mem::replace(&mut self.0, ptr::null_mut())
    }

    /// The text; empty for NULL.
    #[must_use]
    pub fn to_text(&self) -> String {
        if self.0.is_null() {
            return String::new();
        }
        // SAFETY: not NULL, and a NUL-terminated string by the contract of the constructors.
        unsafe { CStr::from_ptr(self.0) }
            .to_string_lossy()
            .into_owned()
    }
}

impl Drop for SlurmString {
    fn drop(&mut self) {
        // SAFETY: slurm_xfree_ptr takes NULL or memory of Slurm's allocator, and it is ours.
        unsafe { internal::slurm_xfree_ptr(self.0.cast::<c_void>()) };
    }
}
