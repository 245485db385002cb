//! Clusters: blocks that run at the same time and reach each other's shared memory (sm_90).
//!
//! A kernel says how many blocks make a cluster in `#[kernel(cluster_blocks = ..)]`; its grid
//! must be a multiple of it.
//!
//! **Emulator**: not emulated; a kernel that gets here is reported.

use crate::backend;
use crate::mbarrier::Barrier;
use crate::shared::SharedAddr;

/// The block's place in its cluster. `%cluster_ctarank`.
#[must_use]
#[track_caller]
#[inline(always)]
pub fn block_rank() -> u32 {
    backend::cluster_block_rank()
}

/// Waits for all threads of all blocks of the cluster. `barrier.cluster.arrive` and `.wait`,
/// aligned.
#[track_caller]
#[inline(always)]
pub fn sync() {
    backend::cluster_sync();
}

/// Makes the thread's initialised barriers visible to the cluster, before a [`sync`] that tells it.
/// `fence.mbarrier_init.release.cluster`.
#[track_caller]
#[inline(always)]
pub fn fence_barriers() {
    backend::cluster_fence_barriers();
}

/// [`Barrier::wait`] for what came from any block of the cluster.
/// `mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64` in a loop.
///
/// # Safety
/// As [`Barrier::wait`].
#[track_caller]
#[inline(always)]
pub unsafe fn wait(barrier: Barrier, parity: u32) {
    // SAFETY: the caller's promise is the backend's.
    unsafe { backend::cluster_wait(barrier.0.0, parity) }
}

/// Stores two values in the shared memory of block `rank`, at the place that has this address
/// here, and then completes 8 bytes on that block's `barrier`.
/// `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32`.
///
/// # Safety
/// Both places belong to the launch, 8-byte aligned; the other block expects the bytes and does
/// not end before they come.
#[track_caller]
#[inline(always)]
pub unsafe fn store_async(to: SharedAddr, barrier: Barrier, rank: u32, values: [f32; 2]) {
    // SAFETY: the caller's promise is the backend's.
    unsafe { backend::cluster_store_async(to.0, barrier.0.0, rank, values) }
}
