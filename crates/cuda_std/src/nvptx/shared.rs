//! Shared memory.

use core::arch::{asm, global_asm};
use core::mem::transmute_copy;

use crate::common::Element;

// Dynamic shared memory: one symbol for all kernels. The launch gives its size.
global_asm!(".extern .shared .align 128 .b8 cuda_std_dynamic_shared[];");

/// An address and a length. Release code does not read the length.
#[derive(Debug, Clone, Copy)]
pub struct SharedView {
    address: u32,
    len: u32,
}

/// The source of `shared_array!`'s views.
#[derive(Debug)]
pub enum SharedSymbol {}

impl SharedSymbol {
    #[doc(hidden)]
    #[inline(always)]
    pub fn view(address: u32, len: u32) -> SharedView {
        SharedView { address, len }
    }
}

impl SharedView {
    #[inline(always)]
    pub(crate) fn dynamic<T>(byte_offset: u32, len: u32) -> Self {
        let base: u32;
        // SAFETY: the instruction only forms the address of the symbol declared above.
        unsafe {
            asm!(
                "mov.u32 {0}, cuda_std_dynamic_shared;",
                out(reg32) base,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        Self {
            address: base.wrapping_add(byte_offset),
            len,
        }
    }

    #[inline(always)]
    pub(crate) fn len(self) -> u32 {
        self.len
    }

    #[inline(always)]
    pub(crate) fn addr<T>(self, i: u32) -> u32 {
        self.address
            .wrapping_add(i.wrapping_mul(size_of::<T>() as u32))
    }

    #[inline(always)]
    pub(crate) fn slice<T>(self, start: u32, len: u32) -> Self {
        Self {
            address: self.addr::<T>(start),
            len,
        }
    }

    #[inline(always)]
    pub(crate) fn cast<T, U>(self) -> Self {
        let bytes = self.len.wrapping_mul(size_of::<T>() as u32);
        Self {
            address: self.address,
            len: bytes / size_of::<U>() as u32,
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn load<T: Element>(self, i: u32) -> T {
        let address = self.addr::<T>(i);
        // SAFETY: i < len, by the caller's promise; each arm reads and returns size_of::<T>()
        // bytes.
        unsafe {
            match size_of::<T>() {
                1 => {
                    let value: u16;
                    asm!("ld.shared.u8 {0}, [{1}];", out(reg16) value, in(reg32) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&(value as u8))
                }
                2 => {
                    let value: u16;
                    asm!("ld.shared.b16 {0}, [{1}];", out(reg16) value, in(reg32) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&value)
                }
                4 => {
                    let value: u32;
                    asm!("ld.shared.b32 {0}, [{1}];", out(reg32) value, in(reg32) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&value)
                }
                _ => {
                    let value: u64;
                    asm!("ld.shared.b64 {0}, [{1}];", out(reg64) value, in(reg32) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&value)
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn load_opaque<T: Element>(self, i: u32) -> T {
        let value: u32;
        // SAFETY: i < len, by the caller's promise; `T` has 4 bytes.
        unsafe {
            asm!("ld.volatile.shared.b32 {0}, [{1}];", out(reg32) value, in(reg32) self.addr::<T>(i),
                options(readonly, nostack, preserves_flags));
            transmute_copy(&value)
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn store<T: Element>(self, i: u32, value: T) {
        let address = self.addr::<T>(i);
        // SAFETY: i < len, by the caller's promise; each arm takes size_of::<T>() bytes.
        unsafe {
            match size_of::<T>() {
                1 => {
                    let value = u16::from(transmute_copy::<T, u8>(&value));
                    asm!("st.shared.u8 [{0}], {1};", in(reg32) address, in(reg16) value,
                        options(nostack, preserves_flags));
                }
                2 => {
                    let value: u16 = transmute_copy(&value);
                    asm!("st.shared.b16 [{0}], {1};", in(reg32) address, in(reg16) value,
                        options(nostack, preserves_flags));
                }
                4 => {
                    let value: u32 = transmute_copy(&value);
                    asm!("st.shared.b32 [{0}], {1};", in(reg32) address, in(reg32) value,
                        options(nostack, preserves_flags));
                }
                _ => {
                    let value: u64 = transmute_copy(&value);
                    asm!("st.shared.b64 [{0}], {1};", in(reg32) address, in(reg64) value,
                        options(nostack, preserves_flags));
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn load_vec<T: Element, const N: usize>(self, i: u32) -> [T; N] {
        let address = self.addr::<T>(i);
        // SAFETY: i + N <= len and alignment, by the caller's promise; each arm reads and returns
        // size_of::<[T; N]>() bytes.
        unsafe {
            match size_of::<[T; N]>() {
                16 => {
                    let (a, b, c, d): (u32, u32, u32, u32);
                    asm!("ld.shared.v4.b32 {{{0},{1},{2},{3}}}, [{4}];", out(reg32) a, out(reg32) b,
                        out(reg32) c, out(reg32) d, in(reg32) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&[a, b, c, d])
                }
                8 => {
                    let (a, b): (u32, u32);
                    asm!("ld.shared.v2.b32 {{{0},{1}}}, [{2}];", out(reg32) a, out(reg32) b,
                        in(reg32) address, options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&[a, b])
                }
                _ => {
                    let a: u32;
                    asm!("ld.shared.b32 {0}, [{1}];", out(reg32) a, in(reg32) address,
                        options(pure, readonly, nostack, preserves_flags));
                    transmute_copy(&a)
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn store_vec<T: Element, const N: usize>(self, i: u32, values: [T; N]) {
        let address = self.addr::<T>(i);
        // SAFETY: i + N <= len and alignment, by the caller's promise; each arm takes size_of::<[T;
        // N]>() bytes.
        unsafe {
            match size_of::<[T; N]>() {
                16 => {
                    let w: [u32; 4] = transmute_copy(&values);
                    asm!("st.shared.v4.b32 [{0}], {{{1},{2},{3},{4}}};", in(reg32) address,
                        in(reg32) w[0], in(reg32) w[1], in(reg32) w[2], in(reg32) w[3],
                        options(nostack, preserves_flags));
                }
                8 => {
                    let w: [u32; 2] = transmute_copy(&values);
                    asm!("st.shared.v2.b32 [{0}], {{{1},{2}}};", in(reg32) address,
                        in(reg32) w[0], in(reg32) w[1], options(nostack, preserves_flags));
                }
                _ => {
                    let w: u32 = transmute_copy(&values);
                    asm!("st.shared.b32 [{0}], {1};", in(reg32) address, in(reg32) w,
                        options(nostack, preserves_flags));
                }
            }
        }
    }
}
