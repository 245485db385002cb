//! `clamp(max_pool2d(group_norm(conv2d(x)) * scale))` in one launch, on Hopper's warpgroup tensor
//! cores: the input is read once, only the output is written.
//!
//! # Idea
//! 1. *Pooling before the statistics are known.* What follows the convolution is `a * y + b` per
//!    channel, and the sign of `a` is that of `weight * scale`, known beforehand. With that sign
//!    multiplied into the filters (`prepare`) the pooled value always comes from the window's
//!    maximum, so one pass over the convolution gives all that is needed: statistics of each
//!    channel, and maxima, a sixteenth of its output, which wait in shared memory.
//! 2. *Filters in registers, pixels in shared memory.* The 64 channels are the rows of a product
//!    and stay in registers for the whole launch; 128 pixels, a row of the image, are its
//!    columns. A product then reads half as many bytes from shared memory as its time allows.
//! 3. *No im2col.* A pixel's 8 channels are the 16 bytes of one operand, and a step of K = 16 is
//!    two filter taps. Pixels lie as `[row][column % 4][column / 4]`, so that a tap only moves
//!    the address, and the 16 elements of a pooling window come to the same accumulator of the
//!    same thread in different products: pooling is a maximum in registers.
//! 4. *f32 from f16.* In the split format a number is the sum of two f16, each 11 bits of it,
//!    and of the four products the one of two low parts is left out: 14 steps a row instead of
//!    18. A power of two keeps inputs in f16's range; it is chosen from the first rows of a block
//!    and lowered when later rows need it. Filters have one of their own for each channel.
//! 5. *Statistics about a shift.* The mean of the first half of a warpgroup's first row of products is
//!    subtracted from all of its rows, so a mean far from zero costs no accuracy. It costs no instruction
//!    either: of 27 (or 9) halves of steps one is left over, and there the shift, as a filter, meets a row of
//!    constant pixels.
//! 6. *Half a row at a time.* A row's products are two chains of 64 columns each, of which one is
//!    reduced while the tensor cores are at the next one. So a warpgroup keeps them busy also while
//!    the other warpgroups do not.
//!
//! ```text
//! for each sample of the cluster, in each block for its half of the rows:
//!     warpgroup 0 (`produce`), for each band of four input rows, a row to a warp:
//!         raw = 8 channels of 4 pixels a lane, loaded one or two bands ahead
//!         f32: choose the scale, at the first band and where a magnitude is too large for the last one
//!         wait(freed[slot])                                    # the window row that was there last time
//!         ring[slot][row][part][column % 4][column / 4] = f16(raw * scale), and what that leaves of it
//!         arrive(filled[slot])
//!     the other warpgroups (`consume`, `window_row`), a window row (four output rows) each by turns:
//!         wait(filled[slot]); wait(filled[next slot])
//!         for each of the four rows, for each half of its columns:
//!             d = filters (registers) x taps of three input rows - shift     # 64 channels x 64 columns
//!             while the next chain runs: sum += d; squares += d * d; best[window] = max(best[window], d)
//!             in its first row, which has no shift yet: shift = mean of its first half; d -= shift
//!         arrive(freed[slot])
//!         pooled[channel][window row] = (best + shift) * descale
//!     the other warpgroups together (`statistics`), at the sample's end:
//!         moments of each channel: threads, quads, warpgroups, and the other half's, through the cluster
//!         mean and variance of each group -> center, slope and summand of each channel
//!         y = clamp((pooled - center) * slope + summand)      # the loads of the next sample go on
//! ```
//!
//! # Tiles
//! A cluster of two blocks takes a sample, one block the upper half of its rows and one the
//! lower; the blocks are persistent, and the clusters take samples by turns. A *band* is four input
//! rows, of 2 KiB a channel in f32; a *window row* is four rows of the convolution, one pooled row, and
//! needs its own band and two rows of the next. Constants and the map of shared memory are in
//! `launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp`.
//!
//! # Small batches
//! Where samples are few, a cluster has more blocks (`SPREAD`): for each half one for every
//! warpgroup that multiplies. What a warpgroup sums up, about which shift and at which scales, and
//! how this is combined, stays as it is, so results are the same bits and the batch may decide.
//! Each of these blocks loads its whole half and so comes to the same scales; in each, another
//! warpgroup multiplies, and the others wait for what it skips, and free it. All blocks get the
//! statistics of every warpgroup, combine them in the one order that there is, and write the rows
//! of their own window rows. The tensor cores have half or a third of the work; loads, which are the same
//! in all blocks of a half, come from the L2 cache.
//!
//! # Barriers
//! | barrier | arrivals | says |
//! |---|---|---|
//! | `filled[stage]` | a lane of each loading warp | the band's rows are stored and visible to the tensor cores |
//! | `freed[stage]` | a lane of each warp of a warpgroup | the products of the slot's *window row* are done |
//! | `exchanged[sample % 2]` | one thread, and 512 bytes for each set of statistics | the other block's statistics, or those of all blocks, are here |
//! | named 1 | the loading warpgroup | magnitudes of a band |
//! | named 2 | all multiplying warpgroups | statistics in, channels in, channel maps out, pooled rows read |
//!
//! # Invariants
//! - Bands are counted through all samples; band `g` uses slot `g % stages` in phase `g / stages`.
//! - A slot is written again after `freed` of its window row, and so, since window rows are freed in the
//!   order in which this was waited for, also after that of the window row before, which reads its
//!   first two rows.
//! - All rows that a window row reads have one scale: that of the last band it needs. When a band must
//!   lower it, the loading warps wait for the last window row that still needs the old one and rescale
//!   the band before in place; the window row between waits for `filled` of the new band.
//! - Statistics of neighbouring samples come to different barriers and places. Who sends those of
//!   one sample has waited for the other blocks' of the sample before, which were sent after each
//!   other block had received and read those of the sample before that. So nothing sent can come to
//!   a barrier whose last phase is not over, however late the asynchronous stores are.
//! - A block waits for all statistics of a sample, so none that is sent to comes to its end before.
//! - A warpgroup that does not multiply a window row frees it as soon as it is filled. The loading warps
//!   wait for window rows in their order, so those before it are still waited for.
//! - NaN and infinity need no care in the maximum: they reach the sums of all groups of their
//!   sample, and a sample whose statistics are NaN is NaN altogether, as in the unfused chain.
//! - Every combination of partial results has a fixed order, and nothing depends on the number of
//!   blocks, of a cluster or of all: the same sample gives the same bits in every batch.

mod consume;
mod format;
mod format_stored;
mod memory;
mod prepare;
mod produce;
mod statistics;
mod window_row;

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

/// What both kernels do.
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
            Barrier::at(memory.filled, stage).init(WARPS);
            Barrier::at(memory.freed, stage).init(WARPS);
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
/// *Traffic*: each element of `x` once for each block that shares its half of a sample (of rows between
/// the halves in both), each of `y` once.
///
/// # Safety
/// `x` is `[n, 8, height, 128]` with 16-byte alignment, `y` `[n, 64, pooled rows, 31]`,
/// as the geometry says; `filters` and `channels` are what the preparing kernel of the same format
/// wrote, with 16-byte alignment.
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

/// `conv2d_group_norm_scale_max_pool_clamp_wgmma` with a sample on more blocks.
///
/// *Launch*, *mapping*, *barriers*, *traffic*: as there.
///
/// # Safety
/// As there.
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
