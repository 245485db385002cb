//! Transaction barriers and bulk copies.

use core::arch::asm;

use super::memory::GlobalView;
use crate::common::{AXES, TensorMap};

#[inline(always)]
pub(crate) unsafe fn mbarrier_init(address: u32, arrivals: u32) {
    // SAFETY: the caller gives 8 bytes of shared memory.
    unsafe {
        asm!("mbarrier.init.shared::cta.b64 [{0}], {1};", in(reg32) address, in(reg32) arrivals,
            options(nostack, preserves_flags));
    }
}

#[inline(always)]
pub(crate) unsafe fn mbarrier_arrive(address: u32) {
    // SAFETY: the caller gives an initialised barrier.
    unsafe {
        asm!("{{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [{0}]; }}", in(reg32) address,
            options(nostack, preserves_flags));
    }
}

#[inline(always)]
pub(crate) unsafe fn mbarrier_arrive_expect(address: u32, bytes: u32) {
    // SAFETY: the caller gives an initialised barrier.
    unsafe {
        asm!("{{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [{0}], {1}; }}",
            in(reg32) address, in(reg32) bytes, options(nostack, preserves_flags));
    }
}

#[inline(always)]
pub(crate) unsafe fn mbarrier_try_wait(address: u32, parity: u32) -> bool {
    let complete: u32;
    // SAFETY: the caller gives an initialised barrier. Without `nomem`, so that reads of what was
    // waited for stay behind it.
    unsafe {
        asm!(
            "{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [{1}], {2}; selp.u32 {0}, 1, 0, p; }}",
            out(reg32) complete, in(reg32) address, in(reg32) parity,
            options(nostack, preserves_flags),
        );
    }
    complete != 0
}

#[inline(always)]
pub(crate) unsafe fn mbarrier_wait(address: u32, parity: u32) {
    // SAFETY: the caller's promise.
    while !unsafe { mbarrier_try_wait(address, parity) } {}
}

#[inline(always)]
pub(crate) unsafe fn copy_bulk<T>(
    dst: u32,
    src: GlobalView,
    index: usize,
    bytes: u32,
    barrier: u32,
) {
    let src = src.address::<T>(index);
    // SAFETY: the caller gives `bytes` aligned bytes at both ends, and an initialised barrier.
    unsafe {
        asm!(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];",
            in(reg32) dst, in(reg64) src, in(reg32) bytes, in(reg32) barrier,
            options(nostack, preserves_flags),
        );
    }
}

#[inline(always)]
pub(crate) unsafe fn cluster_copy_bulk<T>(
    dst: u32,
    src: GlobalView,
    index: usize,
    bytes: u32,
    barrier: u32,
    blocks: u16,
) {
    let src = src.address::<T>(index);
    // SAFETY: as above, in each of the blocks.
    unsafe {
        asm!(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}], {2}, [{3}], {4};",
            in(reg32) dst, in(reg64) src, in(reg32) bytes, in(reg32) barrier, in(reg16) blocks,
            options(nostack, preserves_flags),
        );
    }
}

#[inline(always)]
pub(crate) unsafe fn copy_box(dst: u32, map: &TensorMap, at: [i32; AXES], barrier: u32) {
    let map = core::ptr::from_ref(map);
    let [a, b, c, d, e] = at;
    // SAFETY: the caller gives a map in a parameter, memory for the box, and an initialised barrier.
    unsafe {
        asm!(
            "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [{0}], [{1}, {{{2}, {3}, {4}, {5}, {6}}}], [{7}];",
            in(reg32) dst, in(reg64) map, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d, in(reg32) e, in(reg32) barrier,
            options(nostack, preserves_flags),
        );
    }
}
