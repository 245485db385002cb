//! Global memory.

use core::arch::asm;
use core::mem::transmute_copy;

use crate::common::Element;

/// A pointer and a length. Release code does not read the length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalView {
    ptr: *const u8,
    len: usize,
}

/// The 32-bit words of a wide access.
type Words<const N: usize> = [u32; N];

macro_rules! wide_loads {
    ($($name:ident, $space:literal;)*) => {$(
        /// Loads `BYTES` bytes as 32-bit words.
        #[inline(always)]
        unsafe fn $name<const BYTES: usize>(address: u64) -> Words<4> {
            let (a, mut b, mut c, mut d): (u32, u32, u32, u32);
            (b, c, d) = (0, 0, 0);
            // SAFETY: the caller gives BYTES readable, aligned bytes.
            unsafe {
                match BYTES {
                    16 => asm!(concat!($space, ".v4.b32 {{{0},{1},{2},{3}}}, [{4}];"),
                        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags)),
                    8 => asm!(concat!($space, ".v2.b32 {{{0},{1}}}, [{2}];"),
                        out(reg32) a, out(reg32) b, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags)),
                    _ => asm!(concat!($space, ".b32 {0}, [{1}];"),
                        out(reg32) a, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags)),
                }
            }
            [a, b, c, d]
        }
    )*};
}

wide_loads! {
    load_words, "ld.global";
    load_words_readonly, "ld.global.nc";
}

impl GlobalView {
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *const u8, len: usize) -> Self {
        Self { ptr, len }
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn slice<T>(self, start: usize, len: usize) -> Self {
        Self {
            ptr: self.element::<T>(start).cast(),
            len,
        }
    }

    #[inline(always)]
    fn element<T>(self, i: usize) -> *const T {
        self.ptr.cast::<T>().wrapping_add(i)
    }

    /// Returns the address of element `i` in the global window, as assembly needs it. ptxas knows that the
    /// generic and the global window are equal, so the conversion costs nothing.
    #[inline(always)]
    pub(crate) fn address<T>(self, i: usize) -> u64 {
        let address: u64;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!(
                "cvta.to.global.u64 {0}, {1};",
                out(reg64) address, in(reg64) self.element::<T>(i),
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        address
    }

    #[inline(always)]
    pub(crate) unsafe fn load<T: Element>(self, i: usize) -> T {
        // SAFETY: i < len, by the caller's promise.
        unsafe { self.element::<T>(i).read() }
    }

    #[inline(always)]
    pub(crate) unsafe fn store<T: Element>(self, i: usize, value: T) {
        // SAFETY: i < len, by the caller's promise. The memory is writable, because the view was made
        // mutable.
        unsafe { self.element::<T>(i).cast_mut().write(value) }
    }

    #[inline(always)]
    pub(crate) unsafe fn load_readonly<T: Element>(self, i: usize) -> T {
        let address = self.address::<T>(i);
        // SAFETY: i < len, by the caller's promise; each arm reads and returns size_of::<T>()
        // bytes.
        unsafe {
            match size_of::<T>() {
                1 => {
                    let value: u16;
                    asm!("ld.global.nc.u8 {0}, [{1}];", out(reg16) value, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&(value as u8))
                }
                2 => {
                    let value: u16;
                    asm!("ld.global.nc.b16 {0}, [{1}];", out(reg16) value, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&value)
                }
                4 => {
                    let value: u32;
                    asm!("ld.global.nc.b32 {0}, [{1}];", out(reg32) value, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&value)
                }
                _ => {
                    let value: u64;
                    asm!("ld.global.nc.b64 {0}, [{1}];", out(reg64) value, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&value)
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn load_vec<T: Element, const N: usize>(self, i: usize) -> [T; N] {
        // SAFETY: i + N <= len and alignment, by the caller's promise.
        let words = unsafe { from_words(self.address::<T>(i), size_of::<[T; N]>(), false) };
        // SAFETY: size_of::<[T; N]>() is at most 16, the size of the words.
        unsafe { transmute_copy(&words) }
    }

    #[inline(always)]
    pub(crate) unsafe fn load_vec_readonly<T: Element, const N: usize>(self, i: usize) -> [T; N] {
        // SAFETY: i + N <= len and alignment, by the caller's promise.
        let words = unsafe { from_words(self.address::<T>(i), size_of::<[T; N]>(), true) };
        // SAFETY: size_of::<[T; N]>() is at most 16, the size of the words.
        unsafe { transmute_copy(&words) }
    }

    #[inline(always)]
    pub(crate) unsafe fn store_vec<T: Element, const N: usize>(self, i: usize, values: [T; N]) {
        let address = self.address::<T>(i);
        // SAFETY: i + N <= len and alignment, by the caller's promise; each arm takes size_of::<[T;
        // N]>() bytes.
        unsafe {
            match size_of::<[T; N]>() {
                16 => {
                    let w: Words<4> = transmute_copy(&values);
                    asm!("st.global.v4.b32 [{0}], {{{1},{2},{3},{4}}};", in(reg64) address,
                        in(reg32) w[0], in(reg32) w[1], in(reg32) w[2], in(reg32) w[3],
                        options(nostack, preserves_flags));
                }
                8 => {
                    let w: Words<2> = transmute_copy(&values);
                    asm!("st.global.v2.b32 [{0}], {{{1},{2}}};", in(reg64) address,
                        in(reg32) w[0], in(reg32) w[1], options(nostack, preserves_flags));
                }
                _ => {
                    let w: Words<1> = transmute_copy(&values);
                    asm!("st.global.b32 [{0}], {1};", in(reg64) address, in(reg32) w[0],
                        options(nostack, preserves_flags));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn from_words(address: u64, bytes: usize, readonly: bool) -> Words<4> {
    // SAFETY: the caller gives `bytes` readable, aligned bytes.
    unsafe {
        match (bytes, readonly) {
            (16, false) => load_words::<16>(address),
            (8, false) => load_words::<8>(address),
            (_, false) => load_words::<4>(address),
            (16, true) => load_words_readonly::<16>(address),
            (8, true) => load_words_readonly::<8>(address),
            (_, true) => load_words_readonly::<4>(address),
        }
    }
}
