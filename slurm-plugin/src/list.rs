//! Slurm's `List`, which the daemons pass about.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use slurm_headers::internal;

use crate::compat::{RawIterator, RawListTarget};

/// The pointer type of a list: `List` in 22.05, `list_t *` later.
pub type RawList = *mut RawListTarget;

/// A list that we own until it is handed to Slurm.
#[derive(Debug)]
pub struct OwnedList(NonNull<RawListTarget>);

impl OwnedList {
    /// An empty list whose elements Slurm frees with `free`; `None` for a list of borrowed ones.
    /// `None` comes back if Slurm gives no list.
    #[must_use]
    pub fn new(free: Option<unsafe extern "C" fn(*mut c_void)>) -> Option<Self> {
        // SAFETY: list_create takes the function that frees an element, or none.
        NonNull::new(unsafe { internal::slurm_list_create(free) }).map(Self)
    }

    /// Takes over a list that Slurm gave away; `None` for NULL.
    ///
    /// # Safety
    /// `list` is NULL or a list that nobody else destroys.
    #[must_use]
    pub unsafe fn from_raw(list: RawList) -> Option<Self> {
        NonNull::new(list).map(Self)
    }

    /// The pointer, which stays ours.
    #[must_use]
    pub fn as_ptr(&self) -> RawList {
        self.0.as_ptr()
    }

    /// The pointer, for Slurm to destroy.
    #[must_use]
    pub fn into_raw(self) -> RawList {
        let list = self.0.as_ptr();
        std::mem::forget(self);
        list
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: a live list by the contract of the constructors.
        let count = unsafe { internal::slurm_list_count(self.as_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for OwnedList {
    fn drop(&mut self) {
        // SAFETY: the list is live and ours; Slurm frees the elements by the list's own function.
        unsafe { internal::slurm_list_destroy(self.as_ptr()) };
    }
}

/// Goes through the elements of a list, as pointers to `T`; NULL has none.
///
/// # Safety
/// `list` is NULL or a list of `T` that lives as long as the iterator.
#[must_use]
pub unsafe fn elements<'list, T>(list: RawList) -> Iter<'list, T> {
    let raw = if list.is_null() {
        std::ptr::null_mut()
    } else {
        // SAFETY: a live list.
        unsafe { internal::slurm_list_iterator_create(list) }
    };
    Iter {
        raw,
        element: PhantomData,
    }
}

/// Iterates over a list's elements.
#[derive(Debug)]
pub struct Iter<'list, T> {
    raw: RawIterator,
    element: PhantomData<&'list T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = NonNull<T>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.raw.is_null() {
            return None;
        }
        // SAFETY: the iterator is live until drop, and the list outlives it by 'list.
        NonNull::new(unsafe { internal::slurm_list_next(self.raw) }.cast())
    }
}

impl<T> Drop for Iter<'_, T> {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return;
        }
        // SAFETY: made by list_iterator_create and destroyed once.
        unsafe { internal::slurm_list_iterator_destroy(self.raw) };
    }
}
