//! Transaction barriers and bulk copies.

use core::arch::asm;

use super::memory::GlobalView;
use crate::map_modes::{AXES, SPATIAL_AXES, TensorMap};

instructions! {
    [] unsafe fn mbarrier_init(reg32 address: u32, reg32 arrivals: u32) =
        "mbarrier.init.shared::cta.b64 [{0}], {1};";
    [] unsafe fn mbarrier_arrive(reg32 address: u32) =
        "{{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [{0}]; }}";
    [] unsafe fn mbarrier_arrive_expect(reg32 address: u32, reg32 bytes: u32) =
        "{{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [{0}], {1}; }}";
    /// Without `nomem`, so that the compiler keeps reads of the awaited data behind the wait.
    [] unsafe fn try_wait(reg32 address: u32, reg32 parity: u32) -> complete: u32 =
        "{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [{1}], {2}; selp.u32 {0}, 1, 0, p; }}";
    [] unsafe fn copy_bytes(reg32 dst: u32, reg64 src: u64, reg32 bytes: u32, reg32 barrier: u32) =
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];";
    [] unsafe fn copy_bytes_to(reg32 dst: u32, reg64 src: u64, reg32 bytes: u32, reg32 barrier: u32, reg16 blocks: u16) =
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}], {2}, [{3}], {4};";
}

backend_functions! {
    unsafe fn mbarrier_try_wait(address: u32, parity: u32) -> bool = try_wait(address, parity) != 0;
    unsafe fn mbarrier_wait(address: u32, parity: u32) = while !mbarrier_try_wait(address, parity) {};
    unsafe fn copy_bulk[T](dst: u32, src: GlobalView, index: usize, bytes: u32, barrier: u32) =
        copy_bytes(dst, src.address::<T>(index), bytes, barrier);
    unsafe fn cluster_copy_bulk[T](dst: u32, src: GlobalView, index: usize, bytes: u32, barrier: u32, blocks: u16) =
        copy_bytes_to(dst, src.address::<T>(index), bytes, barrier, blocks);
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

#[inline(always)]
pub(crate) unsafe fn copy_im2col(
    dst: u32,
    map: &TensorMap,
    at: [i32; AXES],
    offsets: [u16; SPATIAL_AXES],
    barrier: u32,
) {
    let map = core::ptr::from_ref(map);
    let [a, b, c, d, e] = at;
    let [w, h, z] = offsets;
    // SAFETY: the caller gives a map in a parameter, memory for the lines, and an initialised barrier.
    unsafe {
        asm!(
            "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [{0}], [{1}, {{{2}, {3}, {4}, {5}, {6}}}], [{7}], {{{8}, {9}, {10}}};",
            in(reg32) dst, in(reg64) map, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d, in(reg32) e, in(reg32) barrier,
            in(reg16) w, in(reg16) h, in(reg16) z,
            options(nostack, preserves_flags),
        );
    }
}

#[inline(always)]
pub(crate) unsafe fn store_box(src: u32, map: &TensorMap, at: [i32; AXES]) {
    let map = core::ptr::from_ref(map);
    let [a, b, c, d, e] = at;
    // SAFETY: the caller gives a map in a parameter, and a box that is complete.
    unsafe {
        asm!(
            "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [{0}, {{{1}, {2}, {3}, {4}, {5}}}], [{6}];",
            in(reg64) map, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d, in(reg32) e, in(reg32) src,
            options(nostack, preserves_flags),
        );
    }
}

instructions! {
    [] fn commit_stores() = "cp.async.bulk.commit_group;";
}

/// Clobbers memory, because the sources of the stores may be overwritten from here on.
#[inline(always)]
pub(crate) fn wait_stores_read<const LEFT: u32>() {
    // SAFETY: waits.
    unsafe {
        asm!("cp.async.bulk.wait_group.read {n};", n = const LEFT, options(nostack, preserves_flags))
    }
}
