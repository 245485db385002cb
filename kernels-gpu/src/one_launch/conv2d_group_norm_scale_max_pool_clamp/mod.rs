//! `clamp(max_pool2d(group_norm(conv2d(x)) * scale))` in one launch, on Hopper's warpgroup tensor cores. The
//! input is read once, and only the output is written.
//!
//! # Idea
//! 1. *Pooling before the statistics are known.* After the convolution, norm and scale map a channel by
//!    `a * y + b`. The sign of `a` is that of `weight * scale`, which is known beforehand. `prepare`
//!    multiplies that sign into the filters, so the pooled value is always the maximum of its window. One
//!    pass over the convolution then gives the statistics of each channel and the window maxima. The maxima
//!    are a sixteenth of the convolution's output and wait in shared memory.
//! 2. *Filters in registers, pixels in shared memory.* The 64 output channels are the rows of A, which stay
//!    in registers for the whole launch. 128 pixels, a row of the image, are the columns of B. An MMA then
//!    reads half as many bytes from shared memory as its time allows.
//! 3. *No im2col.* The 8 channels of a pixel are one K-vector of 16 bytes, and an MMA step (K = 16) is two
//!    filter taps. Pixels lie as `[row][column % 4][column / 4]`, so a tap is another start address. The 16
//!    elements of a pooling window come to the same accumulator of the same thread in different MMA steps:
//!    pooling is a maximum in registers.
//! 4. *f32 as f16x2.* A value is the sum of two f16 of 11 bits each. Of the four products of parts, low by
//!    low is left out: 14 MMA steps a row instead of 18. A power of two keeps inputs in f16's range. It is
//!    chosen from the first rows of a block and lowered where later rows need it. Each output channel's
//!    filters have one of their own.
//! 5. *Statistics about a shift.* The mean of the first half of a warpgroup's first output row is subtracted
//!    from all of its rows, so a mean far from zero costs no accuracy. The subtraction costs no instruction:
//!    a row takes 27 (or 9) halves of MMA steps, which leaves one half unused. In that half the shift, as a
//!    filter, meets a row of constant pixels.
//! 6. *Two accumulator sets.* A row is two MMA batches of 64 columns each. A warpgroup reduces one while the
//!    tensor cores compute the other, so they stay busy also while the other warpgroups wait.
//!
//! ```text
//! for each sample of the cluster, in each block for its half of the rows:
//!     producer warpgroup (`produce`), for each input tile of four rows, a row to a warp:
//!         raw = 8 channels of 4 pixels a lane, loaded one or two tiles ahead
//!         f32: choose the scale, at the first tile and where a magnitude is too large for the current one
//!         wait(empty[stage])                                   # the output tile that read this stage before
//!         pipeline[stage][row][part][column % 4][column / 4] = f16(raw * scale), and the rounding error
//!         arrive(full[stage])
//!     consumer warpgroups (`consume`, `output_tile`), in turn, an output tile (four output rows) each:
//!         wait(full[stage]); wait(full[next stage])
//!         for each of the four rows, for each half of its columns:
//!             d = filters (registers) x taps of three input rows - shift     # 64 channels x 64 columns
//!             while the next batch runs: sum += d; squares += d * d; best[window] = max(best[window], d)
//!             in the first row, which has no shift yet: shift = mean of its first half; d -= shift
//!         arrive(empty[stage])
//!         pooled[channel][output tile] = (best + shift) * descale
//!     all consumer warpgroups together (`statistics`), at the end of the sample:
//!         moments of each channel: threads, quads, warpgroups, and the other half's, through the cluster
//!         mean and variance of each group -> center, slope and summand of each channel
//!         y = clamp((pooled - center) * slope + summand)       # producer loads the next sample meanwhile
//! ```
//!
//! # Tiles
//! A cluster of two blocks takes a sample: one block the upper half of its rows, the other the lower half.
//! Blocks are persistent, and clusters take samples in turn. An *input tile* is four input rows (2 KiB a
//! channel in f32) and fills one pipeline stage. An *output tile* is four rows of the convolution, which are
//! one pooled row. It reads its own input tile and a halo of two rows, the first two of the next input tile.
//! Constants and the map of shared memory are in
//! `launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp`.
//!
//! # Small batches
//! Where samples are few, a cluster has more blocks (`SPREAD`): for each half of a sample, one block for
//! every consumer warpgroup. The output tiles of a warpgroup, its shifts, its scales and the order in which
//! statistics are combined stay the same. Results are therefore bit-identical, and the batch size may select
//! the variant. Each of these blocks loads its whole half, and so chooses the same scales. In each block a
//! different warpgroup multiplies; the other warpgroups wait for the stages that they skip, and release them.
//! Every block receives the statistics of all warpgroups, combines them in the same order, and writes the
//! pooled rows of its own output tiles. Each block's tensor cores have half or a third of the work. The
//! blocks of a half load the same rows, from the L2 cache after the first time.
//!
//! # Barriers
//! | barrier | arrivals | meaning of a completed phase |
//! |---|---|---|
//! | `full[stage]` | a lane of each producer warp | the input tile is stored and visible to tensor cores |
//! | `empty[stage]` | a lane of each warp of a consumer warpgroup | the *output tile*'s MMAs are complete |
//! | `exchanged[sample % 2]` | a thread, 512 bytes a set | statistics of the other or all blocks are here |
//! | named 1 | the producer warpgroup | magnitudes of an input tile are stored |
//! | named 2 | all consumer warpgroups | statistics, channels, affine parameters stored; pooled rows read |
//!
//! # Invariants
//! - Tiles are counted through all samples: input tile `g` uses stage `g % stages` in phase `g / stages`.
//! - A stage is read by two output tiles: its own, and the one before, whose halo it holds. It is overwritten
//!   after `empty` of its own output tile. That suffices, because the producer waits for output tiles in
//!   their order, so it has waited for the one before already.
//! - All rows that an output tile reads have one scale: that of the last input tile it needs. When an input
//!   tile must lower the scale, the producer warps wait for the last output tile that still needs the old
//!   one, and rescale the input tile before in place. The output tile in between waits for `full` of the new
//!   one.
//! - Statistics of neighbouring samples use different barriers and buffers. A block sends its statistics of a
//!   sample only after it has received the other blocks' statistics of the previous sample. Each block sent
//!   those only after it had received and read the statistics of the sample before that. So no data arrives
//!   at a barrier whose last phase is not over, however late the asynchronous stores are.
//! - A block waits for all statistics of a sample, so no block ends before the data sent to it has arrived.
//! - A warpgroup that skips an output tile releases the stage as soon as it is full. The producer warps wait
//!   for output tiles in their order, so they still wait for the ones before it.
//! - NaN and infinity need no care in the maximum: they reach the sums of all groups of their sample, and a
//!   sample whose statistics are NaN is NaN altogether, as in the unfused chain.
//! - Every combination of partial results has a fixed order, and nothing depends on the number of blocks, of
//!   a cluster or of the grid: the same sample gives the same bits in every batch.

mod consume;
mod format;
mod format_stored;
mod memory;
mod output_tile;
mod prepare;
mod produce;
mod statistics;

use cuda_std::mbarrier::Barrier;
use cuda_std::{bf16, cluster, f16, kernel, opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    OneLaunch2dGeometry, WARPGROUP_THREADS,
};

use format::{F16x2, Format, ScaledF16};
use format_stored::Stored;
use memory::Memory;
pub use prepare::*;

/// Warps of a warpgroup.
const WARPS: u32 = WARPGROUP_THREADS / WARP_THREADS;

/// The arguments of a launch.
struct Arguments<T> {
    x: *const T,
    filters: *const u32,
    channels: *const f32,
    y: *mut T,
}

/// The body of both kernels.
#[inline(always)]
unsafe fn body<F: Format>(
    x: *const F::Stored,
    filters: *const u32,
    channels: *const f32,
    y: *mut F::Stored,
    g: &OneLaunch2dGeometry,
) {
    let arguments = &Arguments {
        x,
        filters,
        channels,
        y,
    };
    let memory = Memory::new(F::CONFIG);
    let thread = thread::thread_idx_x();
    let warpgroup = opaque::uniform(thread / WARPGROUP_THREADS);
    if thread == 0 {
        let mut stage = 0;
        while stage < F::CONFIG.stages {
            Barrier::at(memory.full, stage).init(WARPS);
            Barrier::at(memory.empty, stage).init(WARPS);
            stage += 1;
        }
        Barrier::at(memory.exchanged, 0).init(1);
        Barrier::at(memory.exchanged, 1).init(1);
        cluster::fence_barriers();
    }
    cluster::sync();
    if warpgroup == 0 {
        F::give_registers();
        produce::produce::<F>(arguments, g, &memory);
    } else {
        F::take_registers();
        consume::consume::<F>(arguments, g, &memory, warpgroup - 1);
    }
}

/// A cluster of two blocks computes samples of the pipeline.
///
/// *Launch*: `OneLaunch2dGeometry::launch_shape`. *Mapping*, *barriers*: at the head of the module.
/// *Traffic*: each element of `x` once for each block that shares its half of a sample (halo rows
/// between the halves: in both), each of `y` once.
///
/// # Safety
/// `x` is `[n, 8, height, 128]` with 16-byte alignment, `y` `[n, 64, pooled rows, 31]`,
/// as the geometry says; `filters` and `channels` were written by
/// `conv2d_group_norm_scale_max_pool_clamp_prepare` of the same format, with 16-byte alignment.
#[kernel(
    instances(F: [
        f16x2_f32: F16x2<false>,
        scaled_f16_f32: ScaledF16<false>,
        f16: Stored<f16, false>,
        bf16: Stored<bf16, false>,
    ]),
    max_threads = F::CONFIG.block_threads(),
    min_blocks = 1,
    cluster_blocks = F::CONFIG.cluster_blocks()
)]
pub unsafe fn conv2d_group_norm_scale_max_pool_clamp_wgmma<F: Format>(
    x: *const F::Stored,
    filters: *const u32,
    channels: *const f32,
    y: *mut F::Stored,
    g: &OneLaunch2dGeometry,
) {
    body::<F>(x, filters, channels, y, g);
}

/// [`fn@conv2d_group_norm_scale_max_pool_clamp_wgmma`] with a sample spread over more blocks, for small
/// batches.
///
/// *Launch*, *mapping*, *barriers*, *traffic*: as for [`fn@conv2d_group_norm_scale_max_pool_clamp_wgmma`].
///
/// # Safety
/// As for [`fn@conv2d_group_norm_scale_max_pool_clamp_wgmma`].
#[kernel(
    instances(F: [
        f16x2_f32: F16x2<true>,
        scaled_f16_f32: ScaledF16<true>,
        f16: Stored<f16, true>,
        bf16: Stored<bf16, true>,
    ]),
    max_threads = F::CONFIG.block_threads(),
    min_blocks = 1,
    cluster_blocks = F::CONFIG.cluster_blocks()
)]
pub unsafe fn conv2d_group_norm_scale_max_pool_clamp_wgmma_spread<F: Format>(
    x: *const F::Stored,
    filters: *const u32,
    channels: *const f32,
    y: *mut F::Stored,
    g: &OneLaunch2dGeometry,
) {
    body::<F>(x, filters, channels, y, g);
}
