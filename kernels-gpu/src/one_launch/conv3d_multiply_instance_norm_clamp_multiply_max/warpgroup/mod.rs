//! The pipeline of the parent module for f16 and bf16, with Hopper's `wgmma`.
//!
//! # Idea
//! As in the `mma.sync` kernels, a block takes a sample, keeps its input in shared memory, and convolves
//! twice, for the statistics and for the result. The differences:
//!
//! 1. *Two output columns an MMA.* The filters are B, in shared memory. A, 64 positions one below another,
//!    comes from registers (`walk`). The inputs of two neighbouring output columns are four columns: 3 * 9 *
//!    4 = 108 values of K, 112 with the constants of point 3, so 7 steps. B holds the filters twice, at each
//!    output column's position among the four input columns, with zeros elsewhere.
//! 2. *Each input column is loaded once.* The words of a pair of columns are two steps of channels 0 and 1,
//!    one step of channel 2, and half a step of the remaining values. They are the first half of K for one
//!    MMA batch, and the second half for the one before. The two halves of the shared step are swapped each
//!    time, so B has them in both orders.
//! 3. *The shift of the statistics costs nothing.* The spare values of K meet a constant, and in B a start
//!    value: minus the convolution of the means of the sample's first rows (`start_value`). It has two parts,
//!    so that it may exceed the type's range.
//! 4. *The result in 16 bits* (`epilogue::Maximum`): operations after the channel map only select values, and
//!    rounding is monotonic.
//! 5. *Results in rows.* Results stay in shared memory until the warp has those of a whole item.
//!
//! ```text
//! load the thread's share of the filters and of the sample                       # all loads are in flight
//! B = filters, for either column of a pair; planes = sample, as stored
//! barrier
//! start = -(means of the first rows) x filters, where B meets the constants
//! barrier
//! for each item of the warpgroup, 64 rows x a strip of the columns:              # first pass
//!     even = words of the first two input columns
//!     for each pair of output columns:
//!         odd = words of the next two input columns
//!         d = 7 steps: even (3), odd (3), the rest of both (1), x B              # 64 rows x 2 x 16 filters
//!         sum += d; squares += d * d
//!         even = odd                                                             # B of the other order
//!     add the item's sums to those of the warpgroup
//! mean, variance = totals of all warps (in a cluster, of all blocks), in f64
//! factor, added, lower, upper of each filter
//! for each item of the warpgroup:                                                # second pass
//!     for each pair of output columns:
//!         d = as above
//!         results[row][pair] = max over the filters of min(round(d * factor + added), upper)
//!     y = max(results, the largest `lower`), row by row
//! ```
//!
//! # Tiles
//! An item is [`TILE_ROWS`] output rows by a strip of half of the columns. Each warpgroup takes consecutive
//! items. Five warpgroups leave each thread 96 registers. With seven, the assembler has 72, and either spills
//! or serializes the MMAs.
//!
//! # Clusters
//! Where the batch is small, a cluster shares a sample. It has as many blocks as a block has warpgroups. Each
//! block computes the items that one warpgroup of a single block would compute, one item on each of its own
//! warpgroups, and loads only the rows that these touch. The power sums of the items, which each lane keeps
//! separately, are added in the order of that one warpgroup, and the totals are sent to all blocks. The
//! results are therefore bit-identical.
//!
//! # Planes
//! Plane 0 has a word `(c0, c1)` for each pixel. Plane 1 has, at even columns, a word of channel 2 of that
//! pixel and the next. Rows beyond the input read zeros, and so add nothing to sums.
//!
//! # Barriers
//! All threads reach all four barriers: after the stores of planes and operands, of start values, of partial
//! statistics, and of the constants of the filters. In a cluster there is one more before the items' power
//! sums are added, and two of the cluster: when all blocks have begun, and when their totals have arrived.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared;
use cuda_std::wgmma::{self, MatrixDescriptor};
use cuda_std::{Storage, async_proxy, cluster, kernel, opaque, packed, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup::{
    BLOCK_THREADS, CLUSTER_BLOCKS, CLUSTER_SHARED_WORDS, COMMON, COMMON_WORDS, FILTERS,
    LANE_POWER_SUMS, LOAD_ELEMENTS, MOST_WARPGROUP_ITEMS, PAIRS, PARTIAL, POWER_SUMS, RESULT_WORDS,
    RESULTS, SHARED_WORDS, STRIP_PAIRS, STRIPS, TILE_ROWS, WARPGROUP_WARPS, WARPGROUPS, WARPS,
    share,
};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    FILTER_ELEMENTS, OUT_CHANNELS, OneLaunch3dGeometry, TILE_ROWS as WARP_ROWS,
};

mod epilogue;
mod fill;
mod parameters;
mod walk;

use super::format::{Bf16, F16, Format, halves};
use epilogue::{Maximum, PowerSums};
use fill::Filler;
use parameters::{finish_filter, lay_out, operands, start_value, survey, surveyed};
use walk::{Tile, walk};

use crate::parts::lanes::sum_of_lanes;
use crate::parts::unroll::unroll;

/// The map of the common area of shared memory, in words.
mod common {
    /// Means of the channels.
    pub(super) const MEANS: u32 = 0;
    /// The largest magnitude of each filter.
    pub(super) const LARGEST: u32 = 16;
    /// Sums of each filter's channels.
    pub(super) const FILTER_SUMS: u32 = 32;
    /// The multiplier.
    pub(super) const MULTIPLIER: u32 = 80;
    /// The bias.
    pub(super) const BIAS: u32 = 96;
    /// The constants of each filter.
    pub(super) const CONSTANTS: u32 = 112;
}

/// The MMA and the comparisons of a kernel.
pub(super) trait WarpgroupFormat: Format {
    /// The largest finite value.
    const LARGEST: f32;
    /// The accumulators of an MMA batch of seven steps.
    unsafe fn multiply(a: &[[u32; 4]; 7], b: &[MatrixDescriptor; 7]) -> [f32; 16];
    /// The larger of each half; NaN if either is.
    fn max(a: u32, b: u32) -> u32;
    /// The smaller of each half; NaN if either is.
    fn min(a: u32, b: u32) -> u32;
}

macro_rules! warpgroup_format {
    ($name:ident, $stored:ident, $largest:expr, $multiply:ident, $max:ident, $min:ident) => {
        impl WarpgroupFormat for $name {
            const LARGEST: f32 = $largest;
            #[inline(always)]
            unsafe fn multiply(a: &[[u32; 4]; 7], b: &[MatrixDescriptor; 7]) -> [f32; 16] {
                wgmma::$multiply(a, b)
            }
            #[inline(always)]
            fn max(a: u32, b: u32) -> u32 {
                packed::$max(a, b)
            }
            #[inline(always)]
            fn min(a: u32, b: u32) -> u32 {
                packed::$min(a, b)
            }
        }
    };
}
warpgroup_format!(
    F16,
    f16,
    65504.0,
    m64n32_f16_7,
    max_nan_f16x2,
    min_nan_f16x2
);
warpgroup_format!(
    Bf16,
    bf16,
    3.38e38,
    m64n32_bf16_7,
    max_nan_bf16x2,
    min_nan_bf16x2
);

/// The warp's number, marked as uniform for the compiler.
#[inline(always)]
unsafe fn warp_index() -> u32 {
    opaque::uniform(thread::thread_idx_x() / WARP_THREADS)
}

/// A block, or a cluster of blocks, computes one sample of
/// `max(clamp(instance_norm(conv3d(x) * m)) * m, dim=1)`.
///
/// *Launch*: `warpgroup::shape`. *Mapping*: each warpgroup, or each block of the cluster, has consecutive
/// items of 64 rows by a strip of the columns. *Barriers*: at the head of the module. *Traffic*: the input
/// once, the parameters once a block, the output once.
///
/// # Safety
/// As the `mma.sync` kernel for the same type.
#[kernel(
    instances(BLOCKS: [alone: 1, cluster: CLUSTER_BLOCKS], F: [f16: F16, bf16: Bf16]),
    max_threads = BLOCK_THREADS,
    min_blocks = 1,
    cluster_blocks = BLOCKS
)]
pub unsafe fn conv3d_multiply_instance_norm_clamp_multiply_max_wgmma<
    F: WarpgroupFormat,
    const BLOCKS: u32,
>(
    x: *const F::Stored,
    weight: *const F::Stored,
    bias: *const F::Stored,
    multiplier: *const F::Stored,
    y: *mut F::Stored,
    g: &OneLaunch3dGeometry,
) {
    let sample = (thread::block_idx_x() / BLOCKS) as usize;
    let sample_words = g.sample_elements() / 2;
    let x = Global::new(x.cast::<u32>(), g.n as usize * sample_words)
        .slice(sample * sample_words, sample_words);
    let words = shared::dynamic::<u32>(
        0,
        if BLOCKS == 1 {
            SHARED_WORDS
        } else {
            CLUSTER_SHARED_WORDS
        },
    );
    let floats = words.slice(COMMON, COMMON_WORDS).cast::<f32>();
    let thread = thread::thread_idx_x();
    let lane = warp::lane_id();
    let warp = warp_index();

    let warpgroup = warp / WARPGROUP_WARPS;
    let share = if BLOCKS == 1 {
        share(g, warpgroup)
    } else {
        // Tells the other blocks that this block has begun, before they write to its memory.
        cluster::arrive();
        share(g, cluster::block_rank())
    };

    // 1
    let weight = Global::new(weight, FILTER_ELEMENTS as usize);
    let [first_row, end_row] = if BLOCKS == 1 {
        [0, g.rows]
    } else {
        [share.first_row, share.end_row]
    };
    let filler = Filler {
        x,
        words,
        first_row,
        end_row,
        g,
    };
    let own = operands::<F>(weight);
    let surveyed = surveyed::<F>(weight);
    let loads = filler.load_all();
    let first_load = if BLOCKS == 1 {
        loads[0]
    } else {
        filler.load_first()
    };
    // 2
    lay_out::<F>(&own, words);
    survey(&surveyed, floats);
    if warp == 0 {
        let mean = |c: usize| {
            let mut sum = 0.0;
            unroll!(4, |i| {
                let [a, b] = halves::<F>(first_load[c][i]);
                sum += a + b;
            });
            sum_of_lanes::<WARP_THREADS>(sum) * (1.0 / (LOAD_ELEMENTS * WARP_THREADS) as f32)
        };
        let means = [mean(0), mean(1), mean(2)];
        if lane == 0 {
            floats.store_vec(common::MEANS, [means[0], means[1], means[2], 0.0]);
        }
    }
    filler.store_all(&loads);
    async_proxy::fence_shared();
    thread::sync_threads();
    if thread < OUT_CHANNELS {
        start_value::<F>(thread, words, floats);
        async_proxy::fence_shared();
    }
    // Not needed before the statistics are complete.
    let own_filter = thread.wrapping_sub(BLOCK_THREADS - OUT_CHANNELS);
    if own_filter < OUT_CHANNELS {
        let k = own_filter as usize;
        let multiplier = Global::new(multiplier, OUT_CHANNELS as usize).load_readonly(k);
        floats.store(common::MULTIPLIER + own_filter, multiplier.to_f32());
        let bias = if g.bias.is_present() {
            Global::new(bias, OUT_CHANNELS as usize)
                .load_readonly(k)
                .to_f32()
        } else {
            0.0
        };
        floats.store(common::BIAS + own_filter, bias);
    }
    thread::sync_threads();

    // 3
    let own_row = warp % WARPGROUP_WARPS * WARP_ROWS;
    let tile = |item: u32| Tile {
        first_row: item / STRIPS * TILE_ROWS + own_row,
        first_pair: item % STRIPS * STRIP_PAIRS,
        end: (item % STRIPS * STRIP_PAIRS + STRIP_PAIRS).min(PAIRS),
    };
    let filters = wgmma::unit(words.addr(FILTERS));
    // One item after the other, or each warpgroup of the block at most one.
    let first = share.first + if BLOCKS == 1 { 0 } else { warpgroup };
    let step = if BLOCKS == 1 { 1 } else { WARPGROUPS };
    let mut power_sums = PowerSums::NONE;
    let mut item = first;
    while item < share.end {
        let mut of_item = PowerSums::NONE;
        walk::<F, _>(words, filters, g, &tile(item), &mut of_item);
        power_sums.add(&of_item);
        item += step;
    }
    let partial = words.slice(PARTIAL, 32 * WARPS).cast::<f32>();
    let filter = lane / 4 % 4;
    let k = filter / 2 * 8 + 2 * (lane % 4) + filter % 2;
    let slot = lane / 16 * 16 + k;
    if BLOCKS == 1 {
        partial.store(warp * 32 + slot, power_sums.total());
        thread::sync_threads();
    } else {
        let floats = words.cast::<f32>();
        let of_warp = |warp: u32| POWER_SUMS + warp * (LANE_POWER_SUMS * WARP_THREADS);
        if warp < MOST_WARPGROUP_ITEMS * WARPGROUP_WARPS {
            power_sums.store(floats, of_warp(warp));
        }
        thread::sync_threads();
        // The power sums of one warpgroup with all items of the block.
        let mut power_sums = PowerSums::NONE;
        let mut item = 0;
        while item < share.end - share.first {
            let of_item = PowerSums::load(
                floats,
                of_warp(item * WARPGROUP_WARPS + warp % WARPGROUP_WARPS),
            );
            power_sums.add(&of_item);
            item += 1;
        }
        let total = power_sums.total();
        cluster::wait_all();
        // A warpgroup for each block of the cluster.
        let at = (cluster::block_rank() * WARPGROUP_WARPS + warp % WARPGROUP_WARPS) * 32 + slot;
        cluster::store(partial, at, warpgroup, total);
        cluster::sync();
    }

    // 4
    if warp < 2 {
        finish_filter::<F>(thread / 4, thread % 4, words, g);
    }
    thread::sync_threads();

    // 5
    let out_words = g.out_elements() / 2;
    let y = GlobalMut::new(y.cast::<u32>(), g.n as usize * out_words)
        .slice(sample * out_words, out_words);
    let results = words.slice(RESULTS + warp * RESULT_WORDS, RESULT_WORDS);
    let mut maximum = Maximum::<F>::new(results, floats.slice(common::CONSTANTS, 64));
    let mut item = first;
    while item < share.end {
        let tile = tile(item);
        walk::<F, _>(words, filters, g, &tile, &mut maximum);
        maximum.write(y, &tile, g.out_rows);
        item += step;
    }
}
