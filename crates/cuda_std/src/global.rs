//! Views of global memory.
//!
//! A view is a kernel's pointer parameter with its length. On the device every access is one instruction,
//! and `len` is unused and costs nothing. In the emulator the view looks up its allocation once, when it is
//! made, and each access is checked.
//!
//! **Emulator**, for every access: reports an index at or beyond `len`, an access outside of the
//! allocation, a misaligned access, a read of uninitialised bytes, a data race with another thread of the
//! launch, and an access to the destination of a copy in flight. A report of a conflict has both source
//! lines.
//!
//! Accesses are `unsafe`, because the device checks nothing. The *Safety* section of each method states the
//! caller's promise.

use core::marker::PhantomData;

use crate::backend::GlobalView;
use crate::element::{AtomicAdd, AtomicInteger, Element};
use crate::views::{assert_vector, reading, view, writing};

view! {
    /// A view of global memory that the kernel reads.
    Global of GlobalView, *const T, pub(crate)
}

view! {
    /// A view of global memory that the kernel reads and writes.
    GlobalMut of GlobalView, *mut T, pub(crate)
}

reading!(Global, usize, "global");
reading!(GlobalMut, usize, "global");
writing!(GlobalMut, usize, "global", "gpu");

impl<T: Element> Global<T> {
    device_functions! {
        /// Makes a view of the `len` elements from `ptr` on.
        ///
        /// # Safety
        /// `ptr` points to `len` elements of one allocation that lives as long as the kernel runs. (It may
        /// be null if no element is accessed.)
        #[must_use]
        unsafe fn new(ptr: *const T, len: usize) -> Self = Self::from_view(GlobalView::new(ptr.cast(), len));

        /// Reads element `i` through the cache for data that stays constant while the kernel runs.
        /// `ld.global.nc`.
        ///
        /// Emulator: reports an element that this launch has written.
        ///
        /// # Safety
        /// As for [`Self::load`], and no thread writes the element while the kernel runs.
        #[must_use]
        unsafe fn load_readonly(self, i: usize) -> T = self.view.load_readonly::<T>(i);

        /// [`Self::load_vec`] through the cache for constant data. `ld.global.nc.v2` or `.v4`.
        ///
        /// # Safety
        /// As for [`Self::load_vec`], and no thread writes the elements while the kernel runs.
        #[must_use]
        unsafe fn load_vec_readonly[const N: usize](self, i: usize) -> [T; N] = {
            const { assert_vector::<T>(N) };
            self.view.load_vec_readonly::<T, N>(i)
        };
    }
}

impl<T: Element> GlobalMut<T> {
    device_functions! {
        /// Makes a view of the `len` elements from `ptr` on.
        ///
        /// # Safety
        /// As for [`Global::new`].
        #[must_use]
        unsafe fn new(ptr: *mut T, len: usize) -> Self = Self::from_view(GlobalView::new(ptr.cast_const().cast(), len));
    }
}
