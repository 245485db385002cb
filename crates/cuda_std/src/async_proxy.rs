//! The asynchronous proxy, through which `wgmma` and bulk copies access memory (sm_90 and later).

use crate::backend;

device_functions! {
    /// Makes this thread's earlier ordinary accesses to shared memory visible to asynchronous accesses that
    /// are ordered after this fence. `fence.proxy.async.shared::cta`.
    ///
    /// It is needed between writing a tile and the barrier that lets [`crate::wgmma`] read the tile.
    ///
    /// Emulator: reports a `wgmma` that reads a tile, unless a fence is ordered after the tile's last
    /// write and before the read.
    fn fence_shared() = backend::fence_async_proxy();
}
