//! Thread and block indices, block-wide barriers, and memory fences.
//!
//! Names and signatures are Rust-CUDA's. Indices are CUDA's: a thread has an index in its block, and the
//! block has an index in the grid. Each has up to three dimensions, with x the fastest.

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
    ($($all:ident, $what:literal, $register:literal: $x:ident $y:ident $z:ident;)*) => {$(
        special_registers! { @one $x, $what, $register, "x" }
        special_registers! { @one $y, $what, $register, "y" }
        special_registers! { @one $z, $what, $register, "z" }

        #[doc = concat!($what, " along each dimension.")]
        #[must_use]
        #[inline(always)]
        pub fn $all() -> UVec3 {
            UVec3 { x: $x(), y: $y(), z: $z() }
        }
    )*};
    (@one $name:ident, $what:literal, $register:literal, $axis:literal) => {
        plain_functions! {
            #[doc = concat!($what, " along ", $axis, ": `%", $register, ".", $axis, "`. Emulator: the same.")]
            #[must_use]
            fn $name() -> u32 = backend::$name();
        }
    };
}

special_registers! {
    thread_idx, "The thread's index in its block", "tid": thread_idx_x thread_idx_y thread_idx_z;
    block_idx, "The block's index in the grid", "ctaid": block_idx_x block_idx_y block_idx_z;
    block_dim, "Threads of a block", "ntid": block_dim_x block_dim_y block_dim_z;
    grid_dim, "Blocks of the grid", "nctaid": grid_dim_x grid_dim_y grid_dim_z;
}

/// Returns the thread's index in the whole launch, with dimensions flattened and x the fastest. Threads of
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

plain_functions! {
    /// The thread's index along x in the whole launch. Wraps beyond 2³².
    #[must_use]
    fn index_1d() -> u32 =
        block_idx_x().wrapping_mul(block_dim_x()).wrapping_add(thread_idx_x());
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

plain_functions! {
    /// Whether this is the launch's first thread: index 0 in block 0.
    #[must_use]
    fn first() -> bool = block_idx() == UVec3::default() && thread_idx() == UVec3::default();
}

device_functions! {
    /// Waits until all threads of the block have arrived, and orders their memory accesses. Accesses of any
    /// thread before the barrier are visible to all threads after it. `bar.sync 0`.
    ///
    /// All threads of the block must reach the same call.
    ///
    /// Emulator: reports a thread that exits or waits elsewhere instead, and threads that meet from
    /// different calls. Threads that meet on purpose from different calls use [`crate::barrier::sync`].
    fn sync_threads() = backend::sync_threads();

    /// Synchronises as [`sync_threads`], and returns the number of threads whose `predicate` is not 0.
    /// `bar.red.popc.u32`.
    ///
    /// Emulator: as for [`sync_threads`].
    fn sync_threads_count(predicate: u32) -> u32 = backend::sync_threads_count(predicate != 0);

    /// Synchronises as [`sync_threads`], and returns 1 if every thread's `predicate` is not 0, else 0.
    /// `bar.red.and.pred`.
    ///
    /// Emulator: as for [`sync_threads`].
    fn sync_threads_and(predicate: u32) -> u32 = u32::from(backend::sync_threads_and(predicate != 0));

    /// Synchronises as [`sync_threads`], and returns 1 if some thread's `predicate` is not 0, else 0.
    /// `bar.red.or.pred`.
    ///
    /// Emulator: as for [`sync_threads`].
    fn sync_threads_or(predicate: u32) -> u32 = u32::from(backend::sync_threads_or(predicate != 0));

    /// Orders this thread's earlier memory accesses before its later ones, as seen by its block.
    /// `fence.acq_rel.cta`.
    ///
    /// Emulator: together with atomics it orders accesses of different threads, as in the PTX memory
    /// model: *write, fence, atomic* on one side, *atomic, fence, read* on the other.
    fn block_fence() = backend::block_fence();

    /// Orders this thread's earlier memory accesses before its later ones, as seen by the device.
    /// `fence.acq_rel.gpu`.
    ///
    /// Emulator: as [`block_fence`], and between blocks as well.
    fn device_fence() = backend::device_fence();

    /// Orders this thread's earlier memory accesses before its later ones, as seen by the device, the
    /// host, and other devices. `fence.acq_rel.sys`.
    ///
    /// Emulator: the same as [`device_fence`].
    fn system_fence() = backend::system_fence();

    /// Suspends the thread for between 0 and twice `nanos` nanoseconds. `nanosleep.u32`.
    ///
    /// Emulator: lets the other threads of the block run.
    fn nanosleep(nanos: u32) = backend::nanosleep(nanos);
}
