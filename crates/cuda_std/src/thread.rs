//! Where a thread is, barriers over its block, and memory fences.
//!
//! Names and signatures are Rust-CUDA's. Indices are those of CUDA: a thread has an index in
//! its block, the block one in the grid, each with up to three dimensions, x the fastest.

use crate::backend;

/// Three unsigned coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UVec3 {
    /// The fastest coordinate.
    pub x: u32,
    /// The middle coordinate.
    pub y: u32,
    /// The slowest coordinate.
    pub z: u32,
}

/// Two unsigned coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UVec2 {
    /// The fast coordinate.
    pub x: u32,
    /// The slow coordinate.
    pub y: u32,
}

macro_rules! special_registers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[inline(always)]
        pub fn $name() -> u32 {
            backend::$name()
        }
    )*};
}

special_registers! {
    /// The thread's index in its block along x: `%tid.x`. Emulator: the same.
    thread_idx_x;
    /// The thread's index in its block along y: `%tid.y`. Emulator: the same.
    thread_idx_y;
    /// The thread's index in its block along z: `%tid.z`. Emulator: the same.
    thread_idx_z;
    /// The block's index in the grid along x: `%ctaid.x`. Emulator: the same.
    block_idx_x;
    /// The block's index in the grid along y: `%ctaid.y`. Emulator: the same.
    block_idx_y;
    /// The block's index in the grid along z: `%ctaid.z`. Emulator: the same.
    block_idx_z;
    /// Threads of a block along x: `%ntid.x`. Emulator: the same.
    block_dim_x;
    /// Threads of a block along y: `%ntid.y`. Emulator: the same.
    block_dim_y;
    /// Threads of a block along z: `%ntid.z`. Emulator: the same.
    block_dim_z;
    /// Blocks of the grid along x: `%nctaid.x`. Emulator: the same.
    grid_dim_x;
    /// Blocks of the grid along y: `%nctaid.y`. Emulator: the same.
    grid_dim_y;
    /// Blocks of the grid along z: `%nctaid.z`. Emulator: the same.
    grid_dim_z;
}

/// The thread's index in its block.
#[must_use]
#[inline(always)]
pub fn thread_idx() -> UVec3 {
    UVec3 {
        x: thread_idx_x(),
        y: thread_idx_y(),
        z: thread_idx_z(),
    }
}

/// The block's index in the grid.
#[must_use]
#[inline(always)]
pub fn block_idx() -> UVec3 {
    UVec3 {
        x: block_idx_x(),
        y: block_idx_y(),
        z: block_idx_z(),
    }
}

/// Threads of a block along each dimension.
#[must_use]
#[inline(always)]
pub fn block_dim() -> UVec3 {
    UVec3 {
        x: block_dim_x(),
        y: block_dim_y(),
        z: block_dim_z(),
    }
}

/// Blocks of the grid along each dimension.
#[must_use]
#[inline(always)]
pub fn grid_dim() -> UVec3 {
    UVec3 {
        x: grid_dim_x(),
        y: grid_dim_y(),
        z: grid_dim_z(),
    }
}

/// The thread's index in the whole launch, dimensions flattened with x the fastest; threads of
/// one block are adjacent. Wraps if the launch has more than 2³² threads.
#[must_use]
#[inline(always)]
pub fn index() -> u32 {
    let (grid, block) = (grid_dim(), block_dim());
    let (b, t) = (block_idx(), thread_idx());
    let block_index = b.x.wrapping_add(
        b.y.wrapping_add(b.z.wrapping_mul(grid.y))
            .wrapping_mul(grid.x),
    );
    let thread_index = t.x + (t.y + t.z * block.y) * block.x;
    block_index
        .wrapping_mul(block.x * block.y * block.z)
        .wrapping_add(thread_index)
}

/// The thread's index along x in the whole launch. Wraps beyond 2³².
#[must_use]
#[inline(always)]
pub fn index_1d() -> u32 {
    block_idx_x()
        .wrapping_mul(block_dim_x())
        .wrapping_add(thread_idx_x())
}

/// The thread's indices along x and y in the whole launch. They wrap beyond 2³².
#[must_use]
#[inline(always)]
pub fn index_2d() -> UVec2 {
    UVec2 {
        x: index_1d(),
        y: block_idx_y()
            .wrapping_mul(block_dim_y())
            .wrapping_add(thread_idx_y()),
    }
}

/// The thread's indices in the whole launch. They wrap beyond 2³².
#[must_use]
#[inline(always)]
pub fn index_3d() -> UVec3 {
    let UVec2 { x, y } = index_2d();
    UVec3 {
        x,
        y,
        z: block_idx_z()
            .wrapping_mul(block_dim_z())
            .wrapping_add(thread_idx_z()),
    }
}

/// Whether this is the launch's first thread: index 0 in block 0.
#[must_use]
#[inline(always)]
pub fn first() -> bool {
    block_idx() == UVec3::default() && thread_idx() == UVec3::default()
}

/// Waits until all threads of the block are here, and orders their memory accesses: what any of
/// them did before is seen by all of them after. `bar.sync 0`.
///
/// All threads of the block must reach the same call.
///
/// Emulator: reports a thread that exits or waits elsewhere instead, and threads that
/// meet from different calls (for roles that meet on purpose there is [`crate::barrier::sync`]).
#[track_caller]
#[inline(always)]
pub fn sync_threads() {
    backend::sync_threads();
}

/// [`sync_threads`], and the number of threads whose `predicate` is not 0. `bar.red.popc.u32`.
///
/// Emulator: as for [`sync_threads`].
#[track_caller]
#[inline(always)]
pub fn sync_threads_count(predicate: u32) -> u32 {
    backend::sync_threads_count(predicate != 0)
}

/// [`sync_threads`], and 1 if every thread's `predicate` is not 0, else 0. `bar.red.and.pred`.
///
/// Emulator: as for [`sync_threads`].
#[track_caller]
#[inline(always)]
pub fn sync_threads_and(predicate: u32) -> u32 {
    u32::from(backend::sync_threads_and(predicate != 0))
}

/// [`sync_threads`], and 1 if some thread's `predicate` is not 0, else 0. `bar.red.or.pred`.
///
/// Emulator: as for [`sync_threads`].
#[track_caller]
#[inline(always)]
pub fn sync_threads_or(predicate: u32) -> u32 {
    u32::from(backend::sync_threads_or(predicate != 0))
}

/// Orders this thread's earlier memory accesses before its later ones, as seen by its block.
/// `fence.acq_rel.cta`.
///
/// Emulator: together with atomics it orders accesses of different threads, as in the PTX memory
/// model: *write, fence, atomic* on one side, *atomic, fence, read* on the other.
#[track_caller]
#[inline(always)]
pub fn block_fence() {
    backend::block_fence();
}

/// Orders this thread's earlier memory accesses before its later ones, as seen by the device.
/// `fence.acq_rel.gpu`.
///
/// Emulator: as [`block_fence`], and between blocks as well.
#[track_caller]
#[inline(always)]
pub fn device_fence() {
    backend::device_fence();
}

/// Orders this thread's earlier memory accesses before its later ones, as seen by the device, the
/// host, and other devices. `fence.acq_rel.sys`.
///
/// Emulator: the same as [`device_fence`].
#[track_caller]
#[inline(always)]
pub fn system_fence() {
    backend::system_fence();
}

/// Suspends the thread for between 0 and twice `nanos` nanoseconds. `nanosleep.u32`.
///
/// Emulator: lets the other threads of the block run.
#[track_caller]
#[inline(always)]
pub fn nanosleep(nanos: u32) {
    backend::nanosleep(nanos);
}
