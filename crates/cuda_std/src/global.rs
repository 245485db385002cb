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

/// Global memory that the kernel reads.
#[derive(Debug)]
pub struct Global<T> {
    pub(crate) view: GlobalView,
    element: PhantomData<*const T>,
}

/// Global memory that the kernel reads and writes.
#[derive(Debug)]
pub struct GlobalMut<T> {
    pub(crate) view: GlobalView,
    element: PhantomData<*mut T>,
}

impl<T> Clone for Global<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Global<T> {}

impl<T> Clone for GlobalMut<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalMut<T> {}

macro_rules! reading {
    () => {
        /// The number of elements.
        #[must_use]
        #[inline(always)]
        pub fn len(self) -> usize {
            self.view.len()
        }

        /// Whether there are no elements.
        #[must_use]
        #[inline(always)]
        pub fn is_empty(self) -> bool {
            self.len() == 0
        }

        /// The elements `start .. start + len`.
        ///
        /// Emulator: reports a slice that leaves the view.
        #[must_use]
        #[track_caller]
        #[inline(always)]
        pub fn slice(self, start: usize, len: usize) -> Self {
            Self {
                view: self.view.slice::<T>(start, len),
                element: PhantomData,
            }
        }

        /// Element `i`. `ld.global`.
        ///
        /// # Safety
        /// `i < self.len()`, the element was written, and no other thread writes it unordered with
        /// this read.
        #[must_use]
        #[track_caller]
        #[inline(always)]
        pub unsafe fn load(self, i: usize) -> T {
            // SAFETY: the caller's promise is the backend's.
            unsafe { self.view.load::<T>(i) }
        }

        /// The `N` elements from `i` on, in one instruction. `ld.global.v2` or `.v4` for 32-bit
        /// elements, one wide load for narrower ones.
        ///
        /// `N * size_of::<T>()` is 4, 8 or 16, which is checked at compile time.
        ///
        /// # Safety
        /// `i + N <= self.len()`, the address of element `i` is a multiple of `N * size_of::<T>()`,
        /// and for each element as for [`Self::load`].
        #[must_use]
        #[track_caller]
        #[inline(always)]
        pub unsafe fn load_vec<const N: usize>(self, i: usize) -> [T; N] {
            const { assert_vector::<T>(N) };
            // SAFETY: the caller's promise is the backend's.
            unsafe { self.view.load_vec::<T, N>(i) }
        }
    };
}

impl<T: Element> Global<T> {
    /// The `len` elements from `ptr` on.
    ///
    /// # Safety
    /// `ptr` points to `len` elements of one allocation that lives as long as the kernel runs.
    /// (With nothing accessed, it may be null.)
    #[must_use]
    #[track_caller]
    #[inline(always)]
    pub unsafe fn new(ptr: *const T, len: usize) -> Self {
        // SAFETY: the caller's promise is the backend's.
        let view = unsafe { GlobalView::new(ptr.cast(), len) };
        Self {
            view,
            element: PhantomData,
        }
    }

    reading!();

    /// Element `i`, through the cache for data that stays constant while the kernel runs.
    /// `ld.global.nc`.
    ///
    /// Emulator: reports an element that this launch has written.
    ///
    /// # Safety
    /// As for [`Self::load`], and nobody writes the element while the kernel runs.
    #[must_use]
    #[track_caller]
    #[inline(always)]
    pub unsafe fn load_readonly(self, i: usize) -> T {
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.load_readonly::<T>(i) }
    }

    /// [`Self::load_vec`] through the cache for constant data. `ld.global.nc.v2` or `.v4`.
    ///
    /// # Safety
    /// As for [`Self::load_vec`], and nobody writes the elements while the kernel runs.
    #[must_use]
    #[track_caller]
    #[inline(always)]
    pub unsafe fn load_vec_readonly<const N: usize>(self, i: usize) -> [T; N] {
        const { assert_vector::<T>(N) };
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.load_vec_readonly::<T, N>(i) }
    }
}

impl<T: Element> GlobalMut<T> {
    /// The `len` elements from `ptr` on.
    ///
    /// # Safety
    /// As for [`Global::new`].
    #[must_use]
    #[track_caller]
    #[inline(always)]
    pub unsafe fn new(ptr: *mut T, len: usize) -> Self {
        // SAFETY: the caller's promise is the backend's.
        let view = unsafe { GlobalView::new(ptr.cast_const().cast(), len) };
        Self {
            view,
            element: PhantomData,
        }
    }

    reading!();

    /// Writes element `i`. `st.global`.
    ///
    /// # Safety
    /// `i < self.len()`, and no other thread accesses the element unordered with this write.
    #[track_caller]
    #[inline(always)]
    pub unsafe fn store(self, i: usize, value: T) {
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.store::<T>(i, value) }
    }

    /// Writes the `N` elements from `i` on in one instruction. `st.global.v2` or `.v4`.
    ///
    /// `N * size_of::<T>()` is 4, 8 or 16, which is checked at compile time.
    ///
    /// # Safety
    /// `i + N <= self.len()`, the address of element `i` is a multiple of `N * size_of::<T>()`, and
    /// for each element as for [`Self::store`].
    #[track_caller]
    #[inline(always)]
    pub unsafe fn store_vec<const N: usize>(self, i: usize, values: [T; N]) {
        const { assert_vector::<T>(N) };
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.store_vec::<T, N>(i, values) }
    }

    /// Adds `value` to element `i` in one step and returns what was there; integers wrap.
    /// `atom.relaxed.gpu.global.add`.
    ///
    /// Atomics on one element never race with each other, and order nothing else unless fences are
    /// there too (see [`crate::thread::device_fence`]). The order of float additions is not fixed,
    /// so their sum may differ from run to run.
    ///
    /// # Safety
    /// `i < self.len()`, the element was written, and no other thread accesses it other than
    /// atomically, unordered with this access.
    #[track_caller]
    #[inline(always)]
    pub unsafe fn atomic_add(self, i: usize, value: T) -> T
    where
        T: AtomicAdd,
    {
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.atomic_add::<T>(i, value) }
    }
}

macro_rules! atomic_integers {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*);)*) => {
        impl<T: AtomicInteger> GlobalMut<T> {$(
            $(#[$doc])*
            ///
            /// # Safety
            /// As for [`Self::atomic_add`].
            #[track_caller]
            #[inline(always)]
            pub unsafe fn $name(self, i: usize, $($argument: T),*) -> T {
                // SAFETY: the caller's promise is the backend's.
                unsafe { self.view.$name::<T>(i, $($argument),*) }
            }
        )*}
    };
}

atomic_integers! {
    /// Makes element `i` the larger of itself and `value`, and returns what was there.
    /// `atom.relaxed.gpu.global.max`.
    atomic_max(value);
    /// Makes element `i` the smaller of itself and `value`, and returns what was there.
    /// `atom.relaxed.gpu.global.min`.
    atomic_min(value);
    /// Writes `value` to element `i` and returns what was there. `atom.relaxed.gpu.global.exch`.
    atomic_exchange(value);
    /// Writes `new` to element `i` if `expected` is there, and returns what was there.
    /// `atom.relaxed.gpu.global.cas`.
    atomic_cas(expected, new);
    /// Reads element `i` as one atomic access. `ld.relaxed.gpu.global`.
    atomic_load();
    /// Writes element `i` as one atomic access, and returns `value`. `st.relaxed.gpu.global`.
    atomic_store(value);
}

/// Refuses vector widths that have no instruction.
pub(crate) const fn assert_vector<T>(n: usize) {
    let bytes = n * size_of::<T>();
    assert!(
        bytes == 4 || bytes == 8 || bytes == 16,
        "a vector access is 4, 8 or 16 bytes wide"
    );
}
