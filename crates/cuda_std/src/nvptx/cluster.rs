//! Clusters.

use core::arch::asm;
use core::mem::transmute_copy;

use super::shared::SharedView;
use crate::common::Element;

#[inline(always)]
pub(crate) fn cluster_fence_barriers() {
    // SAFETY: orders memory accesses.
    unsafe {
        asm!(
            "fence.mbarrier_init.release.cluster;",
            options(nostack, preserves_flags)
        )
    }
}

#[inline(always)]
pub(crate) unsafe fn cluster_wait(address: u32, parity: u32) {
    loop {
        let done: u32;
        // SAFETY: an initialised barrier, by the caller's promise. Without `nomem`, so that reads of what
        // came with the phase stay behind it.
        unsafe {
            asm!(
                "{{ .reg .pred done; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [{1}], {2};",
                "selp.u32 {0}, 1, 0, done; }}",
                out(reg32) done, in(reg32) address, in(reg32) parity,
                options(nostack, preserves_flags),
            );
        }
        if done != 0 {
            return;
        }
    }
}

#[inline(always)]
pub(crate) fn cluster_block_rank() -> u32 {
    let rank: u32;
    // SAFETY: reads a register.
    unsafe {
        asm!("mov.u32 {0}, %cluster_ctarank;", out(reg32) rank, options(pure, nomem, nostack, preserves_flags))
    }
    rank
}

#[inline(always)]
pub(crate) fn cluster_blocks() -> u32 {
    let blocks: u32;
    // SAFETY: reads a register.
    unsafe {
        asm!("mov.u32 {0}, %cluster_nctarank;", out(reg32) blocks, options(pure, nomem, nostack, preserves_flags))
    }
    blocks
}

#[inline(always)]
pub(crate) fn cluster_sync() {
    // SAFETY: waits.
    unsafe {
        asm!(
            "barrier.cluster.arrive.release.aligned;",
            "barrier.cluster.wait.acquire.aligned;",
            options(nostack, preserves_flags),
        )
    }
}

#[inline(always)]
pub(crate) fn cluster_arrive() {
    // SAFETY: signals.
    unsafe {
        asm!(
            "barrier.cluster.arrive.release.aligned;",
            options(nostack, preserves_flags)
        )
    }
}

#[inline(always)]
pub(crate) fn cluster_wait_all() {
    // SAFETY: waits.
    unsafe {
        asm!(
            "barrier.cluster.wait.acquire.aligned;",
            options(nostack, preserves_flags)
        )
    }
}

#[inline(always)]
pub(crate) unsafe fn cluster_arrive_at(barrier: u32, rank: u32) {
    // SAFETY: the caller gives a barrier that the other block has as well, initialised.
    unsafe {
        asm!(
            "{{ .reg .b32 there; mapa.shared::cluster.u32 there, {0}, {1};",
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }}",
            in(reg32) barrier, in(reg32) rank,
            options(nostack, preserves_flags),
        )
    }
}

impl SharedView {
    #[inline(always)]
    pub(crate) unsafe fn load_remote<T: Element>(self, i: u32, rank: u32) -> T {
        let value: u32;
        // SAFETY: i < len, by the caller's promise, in the other block as here; `T` has 4 bytes.
        unsafe {
            asm!(
                "{{ .reg .b32 there; mapa.shared::cluster.u32 there, {1}, {2};",
                "ld.shared::cluster.b32 {0}, [there]; }}",
                out(reg32) value, in(reg32) self.addr::<T>(i), in(reg32) rank,
                options(readonly, nostack, preserves_flags),
            );
            transmute_copy(&value)
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn store_remote<T: Element>(self, i: u32, rank: u32, value: T) {
        // SAFETY: i < len, by the caller's promise, in the other block as here; `T` has 4 bytes.
        unsafe {
            let value: u32 = transmute_copy(&value);
            asm!(
                "{{ .reg .b32 there; mapa.shared::cluster.u32 there, {0}, {1};",
                "st.shared::cluster.b32 [there], {2}; }}",
                in(reg32) self.addr::<T>(i), in(reg32) rank, in(reg32) value,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn store_remote_vec<T: Element>(self, i: u32, rank: u32, values: [T; 4]) {
        // SAFETY: i + 3 < len, by the caller's promise, in the other block as here, on 16 bytes; `T` has 4
        // bytes.
        unsafe {
            let [a, b, c, d]: [u32; 4] = transmute_copy(&values);
            asm!(
                "{{ .reg .b32 there; mapa.shared::cluster.u32 there, {0}, {1};",
                "st.shared::cluster.v4.b32 [there], {{{2}, {3}, {4}, {5}}}; }}",
                in(reg32) self.addr::<T>(i), in(reg32) rank,
                in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn cluster_store_async(to: u32, barrier: u32, rank: u32, values: [f32; 2]) {
    // SAFETY: the caller gives two places in shared memory that the other block has as well.
    unsafe {
        asm!(
            "{{ .reg .b32 there, signal;",
            "mapa.shared::cluster.u32 there, {0}, {2};",
            "mapa.shared::cluster.u32 signal, {1}, {2};",
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [there], {{{3}, {4}}}, [signal]; }}",
            in(reg32) to, in(reg32) barrier, in(reg32) rank, in(reg32) values[0], in(reg32) values[1],
            options(nostack, preserves_flags),
        )
    }
}
