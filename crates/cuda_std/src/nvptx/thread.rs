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

// SAFETY: the functions wait or arrive, and access no memory.
backend_functions! {
    fn sync_threads() = unsafe { nvptx::_syncthreads() };
    fn sync_threads_count(predicate: bool) -> u32 = unsafe { barrier_count(0, predicate) };
    fn sync_threads_and(predicate: bool) -> bool = unsafe { barrier_and(0, predicate) };
    fn sync_threads_or(predicate: bool) -> bool = unsafe { barrier_or(0, predicate) };
    fn barrier_sync(id: u32, threads: u32) = unsafe { barrier_sync_count(id, threads) };
    fn barrier_arrive(id: u32, threads: u32) = unsafe { barrier_arrive_count(id, threads) };
}

instructions! {
    // Without `nomem`, so that the compiler does not reorder memory accesses across the fence either.
    [] fn block_fence() = "fence.acq_rel.cta;";
    [] fn device_fence() = "fence.acq_rel.gpu;";
    [] fn system_fence() = "fence.acq_rel.sys;";
    [] fn fence_async_proxy() = "fence.proxy.async.shared::cta;";
    /// Without `nomem`, because a loop that sleeps waits for memory to change.
    [] fn nanosleep(reg32 nanos: u32) = "nanosleep.u32 {0};";
}
