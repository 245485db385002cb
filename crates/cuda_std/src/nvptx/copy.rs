//! Asynchronous copies.

use core::arch::asm;

use super::memory::GlobalView;

/// One `cp.async` instruction: its text up to the operands, its size, and the number of bytes that it
/// reads.
macro_rules! copy {
    ($text:literal, $bytes:literal, $dst:ident, $src:ident $(, $valid:ident)?) => {
        asm!(
            concat!($text, " [{0}], [{1}], ", $bytes $(, copy!(@operand $valid))?, ";"),
            in(reg32) $dst, in(reg64) $src, $(in(reg32) $valid,)?
            options(nostack, preserves_flags),
        )
    };
    (@operand $valid:ident) => {
        ", {2}"
    };
}

#[inline(always)]
pub(crate) unsafe fn copy_async<T, const BYTES: usize>(dst: u32, src: GlobalView, index: usize) {
    let src = src.address::<T>(index);
    // SAFETY: the caller gives BYTES readable bytes at `src` and writable ones at `dst`, aligned.
    unsafe {
        match BYTES {
            4 => copy!("cp.async.ca.shared.global", "4", dst, src),
            8 => copy!("cp.async.ca.shared.global", "8", dst, src),
            _ => copy!("cp.async.cg.shared.global", "16", dst, src),
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn copy_async_zfill<T, const BYTES: usize>(
    dst: u32,
    src: GlobalView,
    index: usize,
    valid: u32,
) {
    let src = src.address::<T>(index);
    // SAFETY: as above, for the first `valid` bytes; the others are not read.
    unsafe {
        match BYTES {
            4 => copy!("cp.async.ca.shared.global", "4", dst, src, valid),
            8 => copy!("cp.async.ca.shared.global", "8", dst, src, valid),
            _ => copy!("cp.async.cg.shared.global", "16", dst, src, valid),
        }
    }
}

instructions! {
    [] fn commit_group() = "cp.async.commit_group;";
    /// Without `nomem`, so that the compiler keeps reads of the copied bytes behind the wait.
    [] fn wait_all() = "cp.async.wait_all;";
}

#[inline(always)]
pub(crate) fn wait_group<const N: u32>() {
    // SAFETY: as for `wait_all`.
    unsafe { asm!("cp.async.wait_group {n};", n = const N, options(nostack, preserves_flags)) }
}
