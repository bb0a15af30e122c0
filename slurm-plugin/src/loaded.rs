//! Other plugins that Slurm has opened in this process.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::NonNull;

/// A library that is open, and stays so as long as this lives.
#[derive(Debug)]
pub(crate) struct Loaded(NonNull<c_void>);

impl Loaded {
    /// The library whose path ends so; `None` when it is not open.
    pub(crate) fn find(end: &CStr) -> Option<Self> {
        let mut search = Search { end, found: None };
        // SAFETY: the callback gets this search and keeps nothing of it.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
        let path = search.found?;
        // SAFETY: a NUL-terminated path; with RTLD_NOLOAD only what is open already is counted once more.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        NonNull::new(handle).map(Self)
    }

    /// The address of a symbol.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: an open library and a NUL-terminated name.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: opened once in `find`.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

struct Search<'a> {
    end: &'a CStr,
    found: Option<CString>,
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr hands in a live record and the search of `find`.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_>>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: not NULL, and a string of the dynamic linker.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    if name.to_bytes().ends_with(search.end.to_bytes()) {
        search.found = Some(name.to_owned());
        return 1;
    }
    0
}
