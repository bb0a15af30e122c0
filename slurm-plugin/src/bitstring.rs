//! Slurm's `bitstr_t`.

use std::ptr::NonNull;

use slurm_headers::internal;

/// A bitmap that we own until Slurm takes it.
#[derive(Debug)]
pub struct Bitmap(NonNull<internal::bitstr_t>);

impl Bitmap {
    /// A bitmap of `bits` bits, all clear. `None` for a size that Slurm would refuse.
    #[must_use]
    pub fn new(bits: usize) -> Option<Self> {
        let bits = i64::try_from(bits).ok().filter(|bits| *bits > 0)?;
        // SAFETY: bit_alloc takes a positive size; it ends the process when memory runs out.
        NonNull::new(unsafe { internal::slurm_bit_alloc(bits) }).map(Self)
    }

    /// The pointer, which stays ours.
    #[must_use]
    pub fn as_ptr(&self) -> *mut internal::bitstr_t {
        self.0.as_ptr()
    }

    /// Sets a bit. One outside the bitmap is refused with `false`: Slurm itself would write there.
    pub fn set(&mut self, bit: usize) -> bool {
        // SAFETY: the bitmap is live, and ours.
        let within = unsafe { View::new(self.as_ptr()) }.is_some_and(|view| bit < view.len());
        if let (true, Ok(bit)) = (within, i64::try_from(bit)) {
            // SAFETY: the bitmap is live and the bit lies within it.
            unsafe { internal::slurm_bit_set(self.as_ptr(), bit) };
        }
        within
    }
}

impl Drop for Bitmap {
    fn drop(&mut self) {
        let mut bitmap = self.as_ptr();
        // SAFETY: the bitmap is live and ours; bit_free takes the address of the pointer and clears it.
        unsafe { internal::slurm_bit_free(&raw mut bitmap) };
    }
}

/// A bitmap that Slurm owns, for the time of a hook.
#[derive(Clone, Copy, Debug)]
pub struct View<'hook>(
    NonNull<internal::bitstr_t>,
    std::marker::PhantomData<&'hook ()>,
);

impl View<'_> {
    /// Borrows a bitmap of the host; `None` for NULL.
    ///
    /// # Safety
    /// `bitmap` is NULL or a bitmap of Slurm's that stays as it is for the view's lifetime.
    #[must_use]
    pub unsafe fn new(bitmap: *mut internal::bitstr_t) -> Option<Self> {
        NonNull::new(bitmap).map(|bitmap| Self(bitmap, std::marker::PhantomData))
    }

    /// Number of bits.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: live by the contract of `new`.
        usize::try_from(unsafe { internal::slurm_bit_size(self.0.as_ptr()) }).unwrap_or(0)
    }

    /// Whether the bitmap has no bits at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a bit is set; one outside the bitmap is not.
    #[must_use]
    pub fn contains(&self, bit: usize) -> bool {
        bit < self.len()
            && i64::try_from(bit).is_ok_and(|bit| {
                // SAFETY: the bitmap is live and the bit lies within it.
                unsafe { internal::slurm_bit_test(self.0.as_ptr(), bit) != 0 }
            })
    }

    /// The numbers of the bits that are set, in order.
    #[must_use]
    pub fn ones(&self) -> Vec<usize> {
        (0..self.len()).filter(|bit| self.contains(*bit)).collect()
    }
}
