//! Clusters: blocks that run at the same time and reach each other's shared memory (sm_90).
//!
//! How many blocks make a cluster is said by the kernel, in `#[kernel(cluster_blocks = ..)]`, or else by
//! its launch; the grid must be a multiple of it.
//!
//! A block that ends takes its shared memory with it, so whoever reaches for another block's must
//! come to the cluster's barrier, or have that block wait for what was sent, before it ends.
//!
//! Nor is its memory there before it has begun, so blocks meet at the cluster's barrier first.
//!
//! **Emulator**: the blocks of a cluster run interleaved. Races between them, a rank beyond the cluster,
//! accesses that nothing orders after the other block's start or before its end, bytes that are still on
//! their way to a block that ends, bytes from another block that can come to an earlier phase of a barrier
//! than they are meant for, barriers that are used from another block and were not shown to it by
//! [`fence_barriers`], and barriers of the cluster that never open are reported. A launch whose grid is no
//! multiple of the cluster is refused.

use crate::backend;
use crate::element::Element;
use crate::global::Global;
use crate::mbarrier::Barrier;
use crate::shared::{Shared, SharedAddr};

device_functions! {
    /// The block's place in its cluster. `%cluster_ctarank`.
    #[must_use]
    fn block_rank() -> u32 = backend::cluster_block_rank();

    /// The blocks of the cluster. `%cluster_nctarank`.
    #[must_use]
    fn blocks() -> u32 = backend::cluster_blocks();

    /// Waits for all threads of all blocks of the cluster: [`arrive`] and [`wait_all`].
    fn sync() = backend::cluster_sync();

    /// Comes to the cluster's barrier without waiting. `barrier.cluster.arrive.release.aligned`.
    ///
    /// All lanes of a warp come together, and each arrival has its [`wait_all`].
    fn arrive() = backend::cluster_arrive();

    /// Waits until all threads of the cluster that have not ended have called [`arrive`], and orders
    /// what they did before it. `barrier.cluster.wait.acquire.aligned`.
    fn wait_all() = backend::cluster_wait_all();

    /// Makes the thread's initialised barriers visible to the cluster, before a [`sync`] that tells it.
    /// `fence.mbarrier_init.release.cluster`.
    fn fence_barriers() = backend::cluster_fence_barriers();

    /// [`Barrier::wait`] for what came from any block of the cluster.
    /// `mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64` in a loop.
    ///
    /// # Safety
    /// As [`Barrier::wait`].
    unsafe fn wait(barrier: Barrier, parity: u32) = backend::cluster_wait(barrier.0.0, parity);

    /// Stores two values in the shared memory of block `rank`, at the place that has this address
    /// here, and then completes 8 bytes on that block's `barrier`.
    /// `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32`.
    ///
    /// # Safety
    /// Both places belong to the launch, 8-byte aligned; the other block expects the bytes and does
    /// not end before they come.
    unsafe fn store_async(to: SharedAddr, barrier: Barrier, rank: u32, values: [f32; 2]) =
        backend::cluster_store_async(to.0, barrier.0.0, rank, values);

    /// [`crate::mbarrier::copy_bulk`] to each block whose bit in `blocks` is set, from one read of `src`: the
    /// bytes go where `dst` is here, and count towards the current phase of the barrier that the block has
    /// where `barrier` is here. Blocks wait for them with [`wait()`].
    /// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster`.
    ///
    /// # Safety
    /// As for [`crate::mbarrier::copy_bulk`], in each of these blocks, of which there is one at least; they
    /// all belong to the cluster, have begun, and do not end before the bytes come.
    unsafe fn copy_bulk[T: Element](dst: SharedAddr, src: Global<T>, index: usize, bytes: u32, barrier: Barrier, blocks: u16) =
        backend::cluster_copy_bulk::<T>(dst.0, src.view, index, bytes, barrier.0.0, blocks);

    /// Arrives, without waiting, at the barrier that block `rank` has where `barrier` is here. That
    /// block waits for it with [`wait()`]. `mbarrier.arrive.release.cluster.shared::cluster.b64`.
    ///
    /// # Safety
    /// The other block's barrier was initialised, and the other block does not end before this
    /// arrival.
    unsafe fn arrive_at(barrier: Barrier, rank: u32) = backend::cluster_arrive_at(barrier.0.0, rank);

    /// Element `i`, of 4 bytes, of block `rank`'s memory where `from` is here.
    /// `ld.shared::cluster.b32`.
    ///
    /// # Safety
    /// As for [`Shared::load`], among all threads of the cluster; the other block does not end before.
    #[must_use]
    unsafe fn load[T: Element](from: Shared<T>, i: u32, rank: u32) -> T = {
        const { assert!(size_of::<T>() == 4, "a remote access is 4 bytes wide") };
        from.view.load_remote::<T>(i, rank)
    };

    /// Writes element `i`, of 4 bytes, of block `rank`'s memory where `to` is here.
    /// `st.shared::cluster.b32`.
    ///
    /// # Safety
    /// As for [`Shared::store`], among all threads of the cluster; the other block does not end
    /// before.
    unsafe fn store[T: Element](to: Shared<T>, i: u32, rank: u32, value: T) = {
        const { assert!(size_of::<T>() == 4, "a remote access is 4 bytes wide") };
        to.view.store_remote::<T>(i, rank, value)
    };

    /// Writes elements `i` to `i + 3`, of 4 bytes each, of block `rank`'s memory where `to` is here.
    /// `st.shared::cluster.v4.b32`.
    ///
    /// # Safety
    /// As for [`store`]; the place of element `i` is a multiple of 16 bytes.
    unsafe fn store_vec[T: Element](to: Shared<T>, i: u32, rank: u32, values: [T; 4]) = {
        const { assert!(size_of::<T>() == 4, "a remote access is of words") };
        to.view.store_remote_vec::<T>(i, rank, values)
    };
}
