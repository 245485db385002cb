//! Clusters: blocks that run at the same time and reach each other's shared memory (sm_90).
//!
//! The kernel declares the number of blocks of a cluster, by `#[kernel(cluster_blocks = ..)]`. Without a
//! declaration, the launch gives it. The grid must be a multiple of the cluster.
//!
//! A block's shared memory exists only from its start to its end. Before the first remote access, all
//! blocks meet at the cluster's barrier. Before a block ends, the blocks that access its memory arrive at
//! the cluster's barrier, or the block waits for the data that they send.
//!
//! **Emulator**: the blocks of a cluster run interleaved. It reports:
//! - races between blocks, and ranks beyond the cluster;
//! - accesses that are not ordered after the other block's start or before its end;
//! - bytes in flight to a block that ends;
//! - bytes from another block that may arrive in an earlier phase of a barrier than the intended one;
//! - barriers that another block uses and that [`fence_barriers`] has not made visible to it;
//! - cluster barriers that never complete.
//!
//! A launch is refused if its grid is not a multiple of the cluster.

use crate::backend;
use crate::element::Element;
use crate::global::Global;
use crate::mbarrier::Barrier;
use crate::shared::{Shared, SharedAddr};

device_functions! {
    /// The rank of the block in its cluster. `%cluster_ctarank`.
    #[must_use]
    fn block_rank() -> u32 = backend::cluster_block_rank();

    /// The number of blocks in the cluster. `%cluster_nctarank`.
    #[must_use]
    fn blocks() -> u32 = backend::cluster_blocks();

    /// Waits for all threads of all blocks of the cluster: [`arrive`] and [`wait_all`].
    fn sync() = backend::cluster_sync();

    /// Arrives at the cluster's barrier without waiting. `barrier.cluster.arrive.release.aligned`.
    ///
    /// All lanes of a warp arrive together, and each arrival needs a [`wait_all`].
    fn arrive() = backend::cluster_arrive();

    /// Waits until all threads of the cluster that have not ended have called [`arrive`], and orders their
    /// accesses before it. `barrier.cluster.wait.acquire.aligned`.
    fn wait_all() = backend::cluster_wait_all();

    /// Makes the barriers that this thread has initialised visible to the cluster. A [`sync`] must follow
    /// before other blocks use them. `fence.mbarrier_init.release.cluster`.
    fn fence_barriers() = backend::cluster_fence_barriers();

    /// [`Barrier::wait`] that also acquires writes of other blocks of the cluster.
    /// `mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64` in a loop.
    ///
    /// # Safety
    /// As [`Barrier::wait`].
    unsafe fn wait(barrier: Barrier, parity: u32) = backend::cluster_wait(barrier.0.0, parity);

    /// Stores two values in the shared memory of block `rank`, and then completes 8 bytes on that block's
    /// barrier. `to` and `barrier` are local addresses; the store uses the same addresses in block `rank`.
    /// `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32`.
    ///
    /// # Safety
    /// Both addresses belong to memory of the launch and are multiples of 8 bytes. The other block expects
    /// the bytes and does not end before they arrive.
    unsafe fn store_async(to: SharedAddr, barrier: Barrier, rank: u32, values: [f32; 2]) =
        backend::cluster_store_async(to.0, barrier.0.0, rank, values);

    /// Multicast [`crate::mbarrier::copy_bulk`]: copies to each block with a bit in `blocks`, and reads
    /// `src` once.
    ///
    /// `dst` and `barrier` are local addresses. In each block the bytes arrive at the same address as
    /// `dst`, and count towards the current phase of the barrier at the same address as `barrier`. Blocks
    /// wait for them with [`wait()`].
    /// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster`.
    ///
    /// # Safety
    /// As for [`crate::mbarrier::copy_bulk`], in each of these blocks. `blocks` has at least one bit. All
    /// these blocks belong to the cluster, have started, and do not end before the bytes arrive.
    unsafe fn copy_bulk[T: Element](dst: SharedAddr, src: Global<T>, index: usize, bytes: u32, barrier: Barrier, blocks: u16) =
        backend::cluster_copy_bulk::<T>(dst.0, src.view, index, bytes, barrier.0.0, blocks);

    /// Arrives at the barrier of block `rank` with the same address as `barrier`, without waiting. That
    /// block waits for it with [`wait()`]. `mbarrier.arrive.release.cluster.shared::cluster.b64`.
    ///
    /// # Safety
    /// The other block's barrier was initialised, and the other block does not end before this arrival.
    unsafe fn arrive_at(barrier: Barrier, rank: u32) = backend::cluster_arrive_at(barrier.0.0, rank);

    /// Reads the 4-byte element `i` of `from` in the shared memory of block `rank`.
    /// `ld.shared::cluster.b32`.
    ///
    /// # Safety
    /// As for [`Shared::load`], among all threads of the cluster; the other block does not end before the
    /// read.
    #[must_use]
    unsafe fn load[T: Element](from: Shared<T>, i: u32, rank: u32) -> T = {
        const { assert!(size_of::<T>() == 4, "a remote access is 4 bytes wide") };
        from.view.load_remote::<T>(i, rank)
    };

    /// Writes the 4-byte element `i` of `to` in the shared memory of block `rank`.
    /// `st.shared::cluster.b32`.
    ///
    /// # Safety
    /// As for [`Shared::store`], among all threads of the cluster; the other block does not end before the
    /// write.
    unsafe fn store[T: Element](to: Shared<T>, i: u32, rank: u32, value: T) = {
        const { assert!(size_of::<T>() == 4, "a remote access is 4 bytes wide") };
        to.view.store_remote::<T>(i, rank, value)
    };

    /// Writes the 4-byte elements `i` to `i + 3` of `to` in the shared memory of block `rank`.
    /// `st.shared::cluster.v4.b32`.
    ///
    /// # Safety
    /// As for [`store`]; the address of element `i` is a multiple of 16 bytes.
    unsafe fn store_vec[T: Element](to: Shared<T>, i: u32, rank: u32, values: [T; 4]) = {
        const { assert!(size_of::<T>() == 4, "a remote access is of words") };
        to.view.store_remote_vec::<T>(i, rank, values)
    };
}
