//! Shared memory: on-chip memory of a block.
//!
//! Static arrays are declared with [`crate::shared_array!`]. The launch gives the size of dynamic shared
//! memory, which [`dynamic`] returns. Both give a [`Shared`] view: a 32-bit address and a length. Shared
//! memory has no references and no `static mut`, so nothing aliases memory that the compiler assumes to be
//! exclusive.
//!
//! On the device every access is one `ld.shared` or `st.shared`; the length is unused and costs
//! nothing.
//!
//! **Emulator**: shared memory is uninitialised when a block starts. Each access is checked. It reports an
//! index at or beyond the view's length, an access outside of its array or the dynamic part, a misaligned
//! access, a read of memory that this block has not written, a data race with another thread of the block,
//! and an access to the destination of a copy in flight. A block that requests more than 227 KiB is
//! reported, too.

use core::marker::PhantomData;

use crate::backend::SharedView;
use crate::element::{AtomicAdd, AtomicInteger, Element};
use crate::views::{assert_vector, reading, view, writing};

#[doc(hidden)]
pub use crate::backend::SharedSymbol;
pub use crate::common::MAX_SHARED_BYTES;

/// An address in shared memory, as `ldmatrix` and `cp.async` take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SharedAddr(pub u32);

impl SharedAddr {
    /// Returns the address `bytes` bytes further.
    #[must_use]
    #[inline(always)]
    pub const fn offset(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

view! {
    /// A view of `len` elements of shared memory.
    Shared of SharedView, *mut T, pub
}

reading!(Shared, u32, "shared");
writing!(Shared, u32, "shared", "cta");

device_functions! {
    /// Returns a view of `len` elements of the dynamic shared memory, from byte `byte_offset` on.
    ///
    /// Dynamic shared memory starts at a multiple of 128 bytes.
    ///
    /// Emulator: reports a view beyond the launch's dynamic shared memory, or a misaligned start.
    #[must_use]
    fn dynamic[T: Element](byte_offset: u32, len: u32) -> Shared<T> =
        Shared::from_view(SharedView::dynamic::<T>(byte_offset, len));
}

impl<T: Element> Shared<T> {
    device_functions! {
        /// Returns a view of the same bytes as elements of type `U`, without an incomplete last element.
        ///
        /// Emulator: reports a start that is misaligned for `U`.
        #[must_use]
        fn cast[U: Element](self) -> Shared<U> = Shared::from_view(self.view.cast::<T, U>());

        /// Returns the address of element `i`, which may be one past the last.
        ///
        /// Emulator: reports an address outside of the view.
        #[must_use]
        fn addr(self, i: u32) -> SharedAddr = SharedAddr(self.view.addr::<T>(i));
    }
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
/// `TILE.view()` is then a [`Shared<f32>`](crate::shared::Shared) of `TILE_LEN` elements. A kernel takes up
/// shared memory only for the arrays that it uses. The name is also the PTX symbol, so it must be unique in
/// the whole kernel crate. Arrays of 128 bytes and more are aligned to 128 bytes, smaller ones to 16.
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
            /// Returns a view of the array.
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
