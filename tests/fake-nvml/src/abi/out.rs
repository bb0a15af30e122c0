//! The caller's pointers.
//!
//! These types appear only as parameters of the exported functions, so every value comes from a
//! C caller, who promises what NVML's header asks: a pointer is NULL or valid for its type, and
//! a buffer is as long as the length or count beside it says.

use std::ffi::{CStr, c_char, c_uint};

use crate::status::Status;

/// What a body gives back.
pub(super) type Answer = Result<(), Status>;

/// A pointer to something that the caller lets NVML read or write.
#[repr(transparent)]
pub(super) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// A pointer that the caller has put into a struct; the same promise holds for it.
    pub(super) fn pointing_at(pointer: *mut T) -> Self {
        Self(pointer)
    }

    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes the value.
    pub(super) fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: not NULL, so by NVML's contract valid for a write of T; unaligned is allowed.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// The same place, seen as the beginning of something else.
    pub(super) fn as_start<U>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl<T: Copy> Out<T> {
    /// Reads the value.
    pub(super) fn get(self) -> Result<T, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: not NULL, so by NVML's contract it points at an initialised T of C's types, of
        // which every bit pattern is one.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Writes so many elements; the caller has room for them.
    pub(super) fn fill(self, values: &[T]) -> Answer {
        if values.is_empty() {
            return Ok(());
        }
        if self.0.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        for (offset, value) in values.iter().enumerate() {
            // SAFETY: the count that came with the pointer covers `values`, as our callers check.
            unsafe { self.0.add(offset).write_unaligned(*value) };
        }
        Ok(())
    }

    /// The element at `offset`, which the count beside the pointer covers.
    pub(super) fn at(self, offset: usize) -> Self {
        Self(self.0.wrapping_add(offset))
    }

    /// Reads a versioned struct, whose first field must be the version of this size.
    pub(super) fn versioned(self, number: u32) -> Result<T, Status> {
        if self.as_start::<u32>().get()? != version::<T>(number) {
            return Err(Status::ARGUMENT_VERSION_MISMATCH);
        }
        self.get()
    }
}

impl Out<c_char> {
    /// Writes a C string, if it fits.
    pub(super) fn text(self, length: c_uint, text: &str) -> Answer {
        if self.0.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        if text.len() >= length as usize {
            return Err(Status::INSUFFICIENT_SIZE);
        }
        let bytes: Vec<c_char> = text.bytes().chain([0]).map(c_char_of).collect();
        self.fill(&bytes)
    }
}

/// NVML's struct version: the size, and the number in the top byte.
#[allow(clippy::cast_possible_truncation, reason = "structs are small")]
pub(super) const fn version<T>(number: u32) -> u32 {
    size_of::<T>() as u32 | number << 24
}

/// A C string in the caller's memory.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Text(*const c_char);

impl Text {
    /// The text.
    pub(super) fn get(self) -> Result<String, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: not NULL, so by NVML's contract a C string; copied before the call ends.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str()
            .map(str::to_owned)
            .map_err(|_| Status::INVALID_ARGUMENT)
    }
}

/// NVML's protocol for lists: the count says how many fit and then how many there are; too few
/// give `INSUFFICIENT_SIZE`.
pub(super) fn list<T: Copy>(count: Out<c_uint>, buffer: Out<T>, values: &[T]) -> Answer {
    let room = count.get()? as usize;
    count.set(count_of(values.len()))?;
    if values.is_empty() {
        return Ok(());
    }
    if room < values.len() {
        return Err(Status::INSUFFICIENT_SIZE);
    }
    buffer.fill(values)
}

/// The topology calls' protocol: without a buffer only the count is told, and that is a success.
pub(super) fn list_or_count<T: Copy>(count: Out<c_uint>, buffer: Out<T>, values: &[T]) -> Answer {
    let room = count.get()? as usize;
    if room == 0 || buffer.is_null() {
        return count.set(count_of(values.len()));
    }
    let kept = values.get(..room).unwrap_or(values);
    count.set(count_of(kept.len()))?;
    buffer.fill(kept)
}

/// A count for C.
pub(super) fn count_of(length: usize) -> c_uint {
    c_uint::try_from(length).unwrap_or(c_uint::MAX)
}

/// A fixed array that holds a C string, cut if too long.
pub(super) fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (place, byte) in array.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
        *place = c_char_of(byte);
    }
    array
}

fn c_char_of(byte: u8) -> c_char {
    c_char::from_ne_bytes([byte])
}

/// A key of the scenario that may be set nowhere.
pub(super) trait Supported<T> {
    /// The value, or `NOT_SUPPORTED`.
    fn supported(self) -> Result<T, Status>;
}

impl<T> Supported<T> for Option<T> {
    fn supported(self) -> Result<T, Status> {
        self.ok_or(Status::NOT_SUPPORTED)
    }
}
