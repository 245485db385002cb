//! Clusters.

use core::arch::asm;
use core::mem::transmute_copy;

use super::shared::SharedView;
use crate::common::Element;

instructions! {
    [] fn cluster_fence_barriers() = "fence.mbarrier_init.release.cluster;";
    [pure nomem] fn cluster_block_rank() -> rank: u32 = "mov.u32 {0}, %cluster_ctarank;";
    [pure nomem] fn cluster_blocks() -> blocks: u32 = "mov.u32 {0}, %cluster_nctarank;";
    [] fn cluster_sync() = "barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;";
    [] fn cluster_arrive() = "barrier.cluster.arrive.release.aligned;";
    [] fn cluster_wait_all() = "barrier.cluster.wait.acquire.aligned;";
    /// Without `nomem`, so that the compiler keeps reads of the phase's data behind the wait.
    [] unsafe fn cluster_try_wait(reg32 address: u32, reg32 parity: u32) -> done: u32 =
        "{{ .reg .pred done; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [{1}], {2};",
        "selp.u32 {0}, 1, 0, done; }}";
    [] unsafe fn cluster_arrive_at(reg32 barrier: u32, reg32 rank: u32) =
        "{{ .reg .b32 there; mapa.shared::cluster.u32 there, {0}, {1};",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }}";
    [readonly] unsafe fn load_remote(reg32 address: u32, reg32 rank: u32) -> value: u32 =
        "{{ .reg .b32 there; mapa.shared::cluster.u32 there, {1}, {2};",
        "ld.shared::cluster.b32 {0}, [there]; }}";
    [] unsafe fn store_remote(reg32 address: u32, reg32 rank: u32, reg32 value: u32) =
        "{{ .reg .b32 there; mapa.shared::cluster.u32 there, {0}, {1};",
        "st.shared::cluster.b32 [there], {2}; }}";
    [] unsafe fn store_remote_vec(reg32 address: u32, reg32 rank: u32, reg32 a: u32, reg32 b: u32, reg32 c: u32, reg32 d: u32) =
        "{{ .reg .b32 there; mapa.shared::cluster.u32 there, {0}, {1};",
        "st.shared::cluster.v4.b32 [there], {{{2}, {3}, {4}, {5}}}; }}";
    [] unsafe fn store_async(reg32 to: u32, reg32 barrier: u32, reg32 rank: u32, reg32 first: f32, reg32 second: f32) =
        "{{ .reg .b32 there, signal;",
        "mapa.shared::cluster.u32 there, {0}, {2};",
        "mapa.shared::cluster.u32 signal, {1}, {2};",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [there], {{{3}, {4}}}, [signal]; }}";
}

backend_functions! {
    unsafe fn cluster_wait(address: u32, parity: u32) = loop {
        if cluster_try_wait(address, parity) != 0 {
            return;
        }
    };
    unsafe fn cluster_store_async(to: u32, barrier: u32, rank: u32, values: [f32; 2]) =
        store_async(to, barrier, rank, values[0], values[1]);
}

/// Accesses to 4-byte elements of another block's shared memory, at the same offset as in this block.
impl SharedView {
    backend_functions! {
            unsafe fn load_remote[T: Element](self, i: u32, rank: u32) -> T =
                transmute_copy(&load_remote(self.addr::<T>(i), rank));
            unsafe fn store_remote[T: Element](self, i: u32, rank: u32, value: T) =
    {
                let value: u32 = transmute_copy(&value);
                store_remote(self.addr::<T>(i), rank, value)
            };
            unsafe fn store_remote_vec[T: Element](self, i: u32, rank: u32, values: [T; 4]) = {
                let [a, b, c, d]: [u32; 4] = transmute_copy(&values);
                store_remote_vec(self.addr::<T>(i), rank, a, b, c, d)
            };
        }
}
