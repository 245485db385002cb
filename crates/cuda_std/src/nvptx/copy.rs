//! Asynchronous copies.

use core::arch::asm;

use super::memory::GlobalView;

#[inline(always)]
pub(crate) unsafe fn copy_async<T, const BYTES: usize>(dst: u32, src: GlobalView, index: usize) {
    let src = src.address::<T>(index);
    // SAFETY: the caller gives BYTES readable bytes at `src` and writable ones at `dst`, aligned.
    unsafe {
        match BYTES {
            4 => {
                asm!("cp.async.ca.shared.global [{0}], [{1}], 4;", in(reg32) dst, in(reg64) src, options(nostack, preserves_flags))
            }
            8 => {
                asm!("cp.async.ca.shared.global [{0}], [{1}], 8;", in(reg32) dst, in(reg64) src, options(nostack, preserves_flags))
            }
            _ => {
                asm!("cp.async.cg.shared.global [{0}], [{1}], 16;", in(reg32) dst, in(reg64) src, options(nostack, preserves_flags))
            }
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
            4 => {
                asm!("cp.async.ca.shared.global [{0}], [{1}], 4, {2};", in(reg32) dst, in(reg64) src, in(reg32) valid, options(nostack, preserves_flags))
            }
            8 => {
                asm!("cp.async.ca.shared.global [{0}], [{1}], 8, {2};", in(reg32) dst, in(reg64) src, in(reg32) valid, options(nostack, preserves_flags))
            }
            _ => {
                asm!("cp.async.cg.shared.global [{0}], [{1}], 16, {2};", in(reg32) dst, in(reg64) src, in(reg32) valid, options(nostack, preserves_flags))
            }
        }
    }
}

#[inline(always)]
pub(crate) fn commit_group() {
    // SAFETY: closes a group of copies.
    unsafe { asm!("cp.async.commit_group;", options(nostack, preserves_flags)) }
}

#[inline(always)]
pub(crate) fn wait_group<const N: u32>() {
    // SAFETY: waits; without `nomem`, so that reads of what was copied stay behind it.
    unsafe { asm!("cp.async.wait_group {n};", n = const N, options(nostack, preserves_flags)) }
}

#[inline(always)]
pub(crate) fn wait_all() {
    // SAFETY: as above.
    unsafe { asm!("cp.async.wait_all;", options(nostack, preserves_flags)) }
}
