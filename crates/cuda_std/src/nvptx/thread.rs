//! Special registers, barriers over the block, fences.

use core::arch::asm;
use core::arch::nvptx;

macro_rules! special_registers {
    ($($name:ident = $intrinsic:ident;)*) => {$(
        #[inline(always)]
        // The intrinsics returned i32 in earlier compilers.
        #[allow(clippy::unnecessary_cast)]
        pub(crate) fn $name() -> u32 {
            // SAFETY: reads a register.
            unsafe { nvptx::$intrinsic() as u32 }
        }
    )*};
}

special_registers! {
    thread_idx_x = _thread_idx_x;
    thread_idx_y = _thread_idx_y;
    thread_idx_z = _thread_idx_z;
    block_idx_x = _block_idx_x;
    block_idx_y = _block_idx_y;
    block_idx_z = _block_idx_z;
    block_dim_x = _block_dim_x;
    block_dim_y = _block_dim_y;
    block_dim_z = _block_dim_z;
    grid_dim_x = _grid_dim_x;
    grid_dim_y = _grid_dim_y;
    grid_dim_z = _grid_dim_z;
}

unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
    fn barrier_count(id: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.barrier.cta.red.and.aligned.all"]
    fn barrier_and(id: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
    fn barrier_or(id: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
    fn barrier_sync_count(id: u32, threads: u32);
    #[link_name = "llvm.nvvm.barrier.cta.arrive.aligned.count"]
    fn barrier_arrive_count(id: u32, threads: u32);
}

#[inline(always)]
pub(crate) fn sync_threads() {
    // SAFETY: waits and touches no memory of its own.
    unsafe { nvptx::_syncthreads() }
}

#[inline(always)]
pub(crate) fn sync_threads_count(predicate: bool) -> u32 {
    // SAFETY: waits and touches no memory of its own.
    unsafe { barrier_count(0, predicate) }
}

#[inline(always)]
pub(crate) fn sync_threads_and(predicate: bool) -> bool {
    // SAFETY: waits and touches no memory of its own.
    unsafe { barrier_and(0, predicate) }
}

#[inline(always)]
pub(crate) fn sync_threads_or(predicate: bool) -> bool {
    // SAFETY: waits and touches no memory of its own.
    unsafe { barrier_or(0, predicate) }
}

#[inline(always)]
pub(crate) fn barrier_sync(id: u32, threads: u32) {
    // SAFETY: waits and touches no memory of its own.
    unsafe { barrier_sync_count(id, threads) }
}

#[inline(always)]
pub(crate) fn barrier_arrive(id: u32, threads: u32) {
    // SAFETY: touches no memory of its own.
    unsafe { barrier_arrive_count(id, threads) }
}

macro_rules! fences {
    ($($name:ident = $text:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name() {
            // SAFETY: orders memory accesses; without `nomem` the compiler keeps its own order too.
            unsafe { asm!($text, options(nostack, preserves_flags)) }
        }
    )*};
}

fences! {
    block_fence = "fence.acq_rel.cta;";
    device_fence = "fence.acq_rel.gpu;";
    system_fence = "fence.acq_rel.sys;";
    fence_async_proxy = "fence.proxy.async.shared::cta;";
}

#[inline(always)]
pub(crate) fn nanosleep(nanos: u32) {
    // SAFETY: waits. Without `nomem`, since a loop that sleeps waits for memory to change.
    unsafe { asm!("nanosleep.u32 {0};", in(reg32) nanos, options(nostack, preserves_flags)) }
}
