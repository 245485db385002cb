//! Matrix multiplication by a warpgroup: `wgmma` (sm_90a).
//!
//! Four adjacent warps, the first of which has a number divisible by four, multiply a 64×K tile by
//! a K×N tile, both in shared memory, into accumulators in registers. The instruction runs beside
//! the threads:
//!
//! 1. whoever wrote the tiles with ordinary stores says [`crate::async_proxy::fence_shared`], and
//!    then a barrier orders them before the warpgroup;
//! 2. [`Accumulator::fence`], which hands the accumulators over;
//! 3. any number of [`tf32`], [`f16`](fn@f16), [`bf16`];
//! 4. [`commit_group`], and later [`wait_group`];
//! 5. [`Accumulator::values`].
//!
//! Lane `l` of warp `w` of the warpgroup holds, in `values()[i]`, row `16 * w + l / 4 + 8 * (i / 2
//! % 2)`, column `8 * (i / 4) + 2 * (l % 4) + i % 2`.
//!
//! **Emulator**: the 128 threads meet; differing operands and missing threads are reported. So are:
//! tiles outside of shared memory; tiles that were written without the fence for the asynchronous
//! proxy; accumulators touched before their group was waited for, or not handed over; tiles that
//! somebody overwrites before the wait. Sums are as for [`crate::mma`].

use crate::backend;
use crate::shared::SharedAddr;

/// Where a tile lies in shared memory, without swizzling.
///
/// A tile is made of *core matrices*: 8 rows (of A, or columns of B) of 16 bytes along K, 128 bytes
/// in one piece. An instruction takes two of them along K.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor(u64);

impl Descriptor {
    /// A tile whose first core matrix is at `start`, the second one along K `k_stride` bytes
    /// further, and those of the next 8 rows `row_stride` bytes further.
    ///
    /// All three are multiples of 16, the strides below 2¹⁸.
    #[must_use]
    #[inline(always)]
    pub const fn new(start: SharedAddr, k_stride: u32, row_stride: u32) -> Self {
        const fn field(bytes: u32) -> u64 {
            (bytes as u64 & 0x3_ffff) >> 4
        }
        Self(field(start.0) | field(k_stride) << 16 | field(row_stride) << 32)
    }

    /// The same layout `bytes` further, a multiple of 16. One addition, as long as the address
    /// stays below 2¹⁸.
    #[must_use]
    #[inline(always)]
    pub const fn offset(self, bytes: u32) -> Self {
        Self(self.0 + (bytes as u64 >> 4))
    }

    /// The 64 bits that the instruction takes.
    #[must_use]
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The sums of one thread: `R` registers, for a tile of N = 2·`R` columns.
#[derive(Debug, Clone)]
pub struct Accumulator<const R: usize> {
    values: [f32; R],
    state: backend::AccumulatorState,
}

/// Register counts that there are instructions for: `[f32; N / 2]` with N a multiple of 8 up to 64,
/// 96, 128, or 256.
pub trait Tile: backend::Tile {}

impl<T: backend::Tile> Tile for T {}

impl<const R: usize> Accumulator<R>
where
    [f32; R]: Tile,
{
    /// Sums that are all zero.
    #[must_use]
    #[track_caller]
    #[inline(always)]
    pub fn zero() -> Self {
        Self {
            values: [0.0; R],
            state: backend::AccumulatorState::new(),
        }
    }

    /// Hands the sums to the multiplications that follow; needed at first and whenever they were
    /// touched. `wgmma.fence.sync.aligned`.
    ///
    /// On the device this also keeps the compiler from moving arithmetic on them behind the fence.
    #[track_caller]
    #[inline(always)]
    pub fn fence(&mut self) {
        self.state.hand_over(&mut self.values);
    }

    /// The sums, after the wait for their group, to read or to change.
    ///
    /// On the device this also keeps the compiler from moving arithmetic on them ahead of the wait.
    #[track_caller]
    #[inline(always)]
    pub fn values(&mut self) -> &mut [f32; R] {
        self.state.touch(&mut self.values);
        &mut self.values
    }
}

macro_rules! multiply {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// With `accumulate == false` the old sums are ignored.
        ///
        /// # Safety
        /// All 128 threads of a warpgroup make this call with the same operands, the tiles are
        /// readable until the wait, and the steps above are followed.
        #[track_caller]
        #[inline(always)]
        pub unsafe fn $name<const R: usize>(d: &mut Accumulator<R>, a: Descriptor, b: Descriptor, accumulate: bool)
        where
            [f32; R]: Tile,
        {
            // SAFETY: the caller's promise is the backend's.
            unsafe { backend::$name(&mut d.values, &mut d.state, a.0, b.0, accumulate) }
        }
    )*};
}

multiply! {
    /// `d += A * B`, K = 8. `wgmma.mma_async.sync.aligned.m64nNk8.f32.tf32.tf32`.
    tf32;
    /// `d += A * B`, K = 16, both operands with K contiguous.
    /// `wgmma.mma_async.sync.aligned.m64nNk16.f32.f16.f16`.
    f16;
    /// `d += A * B`, K = 16, both operands with K contiguous.
    /// `wgmma.mma_async.sync.aligned.m64nNk16.f32.bf16.bf16`.
    bf16;
}

/// Closes the multiplications since the last group into a group. `wgmma.commit_group.sync.aligned`.
#[track_caller]
#[inline(always)]
pub fn commit_group() {
    backend::wgmma_commit_group();
}

/// Waits until at most the `N` youngest groups of this thread are running.
/// `wgmma.wait_group.sync.aligned N`.
#[track_caller]
#[inline(always)]
pub fn wait_group<const N: u32>() {
    backend::wgmma_wait_group::<N>();
}
