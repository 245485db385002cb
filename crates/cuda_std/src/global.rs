//! Views of global memory.
//!
//! A view is a kernel's pointer parameter with its length. On the device that is all it is: every
//! access is one instruction, `len` is unused and costs nothing. In the emulator the view finds its
//! allocation once, when made, and each access is checked.
//!
//! **Emulator**, for every access: an index at or beyond `len`, an access outside of the allocation
//! or misaligned, a read of bytes that nobody wrote, a data race with another thread of the launch,
//! and touching the target of a copy that has not landed are reported with both source lines.
//!
//! Accesses are `unsafe`, since the device checks nothing; what the caller promises is written at
//! each.

use core::marker::PhantomData;

use crate::backend::GlobalView;
use crate::element::{AtomicAdd, AtomicInteger, Element};
use crate::views::{assert_vector, reading, view, writing};

view! {
    /// Global memory that the kernel reads.
    Global of GlobalView, *const T, pub(crate)
}

view! {
    /// Global memory that the kernel reads and writes.
    GlobalMut of GlobalView, *mut T, pub(crate)
}

reading!(Global, usize, "global");
reading!(GlobalMut, usize, "global");
writing!(GlobalMut, usize, "global", "gpu");

impl<T: Element> Global<T> {
    device_functions! {
        /// The `len` elements from `ptr` on.
        ///
        /// # Safety
        /// `ptr` points to `len` elements of one allocation that lives as long as the kernel runs.
        /// (With nothing accessed, it may be null.)
        #[must_use]
        unsafe fn new(ptr: *const T, len: usize) -> Self = Self::from_view(GlobalView::new(ptr.cast(), len));

        /// Element `i`, through the cache for data that stays constant while the kernel runs.
        /// `ld.global.nc`.
        ///
        /// Emulator: reports an element that this launch has written.
        ///
        /// # Safety
        /// As for [`Self::load`], and nobody writes the element while the kernel runs.
        #[must_use]
        unsafe fn load_readonly(self, i: usize) -> T = self.view.load_readonly::<T>(i);

        /// [`Self::load_vec`] through the cache for constant data. `ld.global.nc.v2` or `.v4`.
        ///
        /// # Safety
        /// As for [`Self::load_vec`], and nobody writes the elements while the kernel runs.
        #[must_use]
        unsafe fn load_vec_readonly[const N: usize](self, i: usize) -> [T; N] = {
            const { assert_vector::<T>(N) };
            self.view.load_vec_readonly::<T, N>(i)
        };
    }
}

impl<T: Element> GlobalMut<T> {
    device_functions! {
        /// The `len` elements from `ptr` on.
        ///
        /// # Safety
        /// As for [`Global::new`].
        #[must_use]
        unsafe fn new(ptr: *mut T, len: usize) -> Self = Self::from_view(GlobalView::new(ptr.cast_const().cast(), len));
    }
}
