//! Shared memory: on-chip memory of a block.
//!
//! Static arrays are declared with [`crate::shared_array!`], the dynamic part, whose size the
//! launch gives, is [`dynamic`]. Both give a [`Shared`] view: a 32-bit address and a length. There
//! is no reference and no `static mut` to it, so nothing can alias what the compiler believes to be
//! exclusive.
//!
//! On the device every access is one `ld.shared` or `st.shared`; the length is unused and costs
//! nothing.
//!
//! **Emulator**, for every access: an index at or beyond the view's length, an access outside of
//! its array or the dynamic part, a misaligned one, a read of what this block has not written, a
//! data race with another thread of the block, and touching the target of a copy that has not
//! landed are reported. All of it is uninitialised when a block starts. A block that asks for more
//! than 227 KiB is reported, too.

use core::marker::PhantomData;

use crate::backend::SharedView;
use crate::element::{AtomicAdd, AtomicInteger, Element};
use crate::global::assert_vector;

#[doc(hidden)]
pub use crate::backend::SharedSymbol;
pub use crate::common::MAX_SHARED_BYTES;

/// An address in shared memory, as `ldmatrix` and `cp.async` take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SharedAddr(pub u32);

impl SharedAddr {
    /// The address `bytes` further.
    #[must_use]
    #[inline(always)]
    pub const fn offset(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

/// `len` elements of shared memory.
#[derive(Debug)]
pub struct Shared<T> {
    pub(crate) view: SharedView,
    element: PhantomData<*mut T>,
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

/// `len` elements of the dynamic shared memory, from its byte `byte_offset` on.
///
/// Dynamic shared memory starts at a multiple of 128 bytes.
///
/// Emulator: reports a view that exceeds what the launch gave, or starts misaligned.
#[must_use]
#[track_caller]
#[inline(always)]
pub fn dynamic<T: Element>(byte_offset: u32, len: u32) -> Shared<T> {
    Shared {
        view: SharedView::dynamic::<T>(byte_offset, len),
        element: PhantomData,
    }
}

impl<T: Element> Shared<T> {
    #[doc(hidden)]
    #[inline(always)]
    pub fn from_view(view: SharedView) -> Self {
        Self {
            view,
            element: PhantomData,
        }
    }

    /// The number of elements.
    #[must_use]
    #[inline(always)]
    pub fn len(self) -> u32 {
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
    pub fn slice(self, start: u32, len: u32) -> Self {
        Self {
            view: self.view.slice::<T>(start, len),
            element: PhantomData,
        }
    }

    /// The same bytes as elements of type `U`; a remainder that is no whole element is cut off.
    ///
    /// Emulator: reports a start that is misaligned for `U`.
    #[must_use]
    #[track_caller]
    #[inline(always)]
    pub fn cast<U: Element>(self) -> Shared<U> {
        Shared {
            view: self.view.cast::<T, U>(),
            element: PhantomData,
        }
    }

    /// The address of element `i`, which may be one past the last.
    ///
    /// Emulator: reports an address outside of the view.
    #[must_use]
    #[track_caller]
    #[inline(always)]
    pub fn addr(self, i: u32) -> SharedAddr {
        SharedAddr(self.view.addr::<T>(i))
    }

    /// Element `i`. `ld.shared`.
    ///
    /// # Safety
    /// `i < self.len()`, the element was written, and no other thread writes it unordered with this
    /// read.
    #[must_use]
    #[track_caller]
    #[inline(always)]
    pub unsafe fn load(self, i: u32) -> T {
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.load::<T>(i) }
    }

    /// Writes element `i`. `st.shared`.
    ///
    /// # Safety
    /// `i < self.len()`, and no other thread accesses the element unordered with this write.
    #[track_caller]
    #[inline(always)]
    pub unsafe fn store(self, i: u32, value: T) {
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.store::<T>(i, value) }
    }

    /// The `N` elements from `i` on in one instruction. `ld.shared.v2` or `.v4` for 32-bit
    /// elements.
    ///
    /// `N * size_of::<T>()` is 4, 8 or 16, which is checked at compile time.
    ///
    /// # Safety
    /// `i + N <= self.len()`, the address of element `i` is a multiple of `N * size_of::<T>()`, and
    /// for each element as for [`Self::load`].
    #[must_use]
    #[track_caller]
    #[inline(always)]
    pub unsafe fn load_vec<const N: usize>(self, i: u32) -> [T; N] {
        const { assert_vector::<T>(N) };
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.load_vec::<T, N>(i) }
    }

    /// Writes the `N` elements from `i` on in one instruction. `st.shared.v2` or `.v4`.
    ///
    /// `N * size_of::<T>()` is 4, 8 or 16, which is checked at compile time.
    ///
    /// # Safety
    /// `i + N <= self.len()`, the address of element `i` is a multiple of `N * size_of::<T>()`, and
    /// for each element as for [`Self::store`].
    #[track_caller]
    #[inline(always)]
    pub unsafe fn store_vec<const N: usize>(self, i: u32, values: [T; N]) {
        const { assert_vector::<T>(N) };
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.store_vec::<T, N>(i, values) }
    }

    /// Adds `value` to element `i` in one step and returns what was there; integers wrap.
    /// `atom.relaxed.cta.shared.add`.
    ///
    /// # Safety
    /// `i < self.len()`, the element was written, and no other thread accesses it other than
    /// atomically, unordered with this access.
    #[track_caller]
    #[inline(always)]
    pub unsafe fn atomic_add(self, i: u32, value: T) -> T
    where
        T: AtomicAdd,
    {
        // SAFETY: the caller's promise is the backend's.
        unsafe { self.view.atomic_add::<T>(i, value) }
    }
}

macro_rules! atomic_integers {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*);)*) => {
        impl<T: AtomicInteger> Shared<T> {$(
            $(#[$doc])*
            ///
            /// # Safety
            /// As for [`Self::atomic_add`].
            #[track_caller]
            #[inline(always)]
            pub unsafe fn $name(self, i: u32, $($argument: T),*) -> T {
                // SAFETY: the caller's promise is the backend's.
                unsafe { self.view.$name::<T>(i, $($argument),*) }
            }
        )*}
    };
}

atomic_integers! {
    /// Makes element `i` the larger of itself and `value`, and returns what was there.
    /// `atom.relaxed.cta.shared.max`.
    atomic_max(value);
    /// Makes element `i` the smaller of itself and `value`, and returns what was there.
    /// `atom.relaxed.cta.shared.min`.
    atomic_min(value);
    /// Writes `value` to element `i` and returns what was there. `atom.relaxed.cta.shared.exch`.
    atomic_exchange(value);
    /// Writes `new` to element `i` if `expected` is there, and returns what was there.
    /// `atom.relaxed.cta.shared.cas`.
    atomic_cas(expected, new);
    /// Reads element `i` as one atomic access. `ld.relaxed.cta.shared`.
    atomic_load();
    /// Writes element `i` as one atomic access, and returns `value`. `st.relaxed.cta.shared`.
    atomic_store(value);
}

/// Declares static shared memory at module level.
///
/// ```
/// # use cuda_std::shared_array;
/// const TILE_LEN: usize = 33 * 32;
/// shared_array! {
///     /// One tile of the input, a column of padding against bank conflicts.
///     static TILE: [f32; TILE_LEN];
/// }
/// ```
///
/// `TILE.view()` is then a [`Shared<f32>`](crate::shared::Shared) of `TILE_LEN` elements. A kernel
/// pays only for the arrays that it uses. The name is also the PTX symbol, so it must be unique in
/// the whole kernel crate. Arrays of 128 bytes and more start at a multiple of 128, smaller ones at
/// a multiple of 16.
#[macro_export]
macro_rules! shared_array {
    ($($(#[$attribute:meta])* $visibility:vis static $NAME:ident : [$element:ty; $len:expr];)+) => {$(
        #[cfg(target_arch = "nvptx64")]
        ::core::arch::global_asm!(
            concat!(".shared .align {align} .b8 ", stringify!($NAME), "[{bytes}];"),
            align = const if $len * ::core::mem::size_of::<$element>() >= 128 { 128 } else { 16 },
            bytes = const $len * ::core::mem::size_of::<$element>(),
        );

        $(#[$attribute])*
        #[allow(non_camel_case_types)]
        #[derive(Debug, Clone, Copy)]
        $visibility struct $NAME;

        impl $NAME {
            /// The array.
            #[must_use]
            #[track_caller]
            #[inline(always)]
            #[allow(dead_code)]
            pub fn view(self) -> $crate::shared::Shared<$element> {
                const LEN: u32 = $len as u32;
                #[cfg(target_arch = "nvptx64")]
                {
                    let address: u32;
                    // SAFETY: the instruction only forms the address of the symbol declared above.
                    unsafe {
                        ::core::arch::asm!(
                            concat!("mov.u32 {0}, ", stringify!($NAME), ";"),
                            out(reg32) address,
                            options(pure, nomem, nostack, preserves_flags),
                        );
                    }
                    let view = $crate::shared::SharedSymbol::view(address, LEN);
                    $crate::shared::Shared::from_view(view)
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    static SYMBOL: $crate::shared::SharedSymbol = $crate::shared::SharedSymbol::new(
                        stringify!($NAME),
                        LEN,
                        ::core::mem::size_of::<$element>() as u32,
                    );
                    $crate::shared::Shared::from_view(SYMBOL.view())
                }
            }
        }
    )+};
}
