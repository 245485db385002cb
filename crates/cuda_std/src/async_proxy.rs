//! The asynchronous proxy: how `wgmma` and bulk copies see memory (sm_90 and later).

use crate::backend;

device_functions! {
    /// Makes this thread's earlier ordinary accesses to shared memory visible to asynchronous ones that
    /// are ordered after it. `fence.proxy.async.shared::cta`.
    ///
    /// Needed between writing a tile and the barrier that lets [`crate::wgmma`] read it.
    ///
    /// Emulator: a tile written without it is reported when `wgmma` reads it, and so is one behind whose last
    /// write nothing orders a fence before the read.
    fn fence_shared() = backend::fence_async_proxy();
}
