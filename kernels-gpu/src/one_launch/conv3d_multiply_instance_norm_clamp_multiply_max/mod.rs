//! `max(clamp(instance_norm(conv3d(x) * m)) * m, dim=1)` in one launch, on tensor cores.
//!
//! # Idea
//! One block takes one sample, or the blocks of a cluster share one (`pass`). Its input, converted to f16
//! (16-bit types without conversion), stays in shared memory from beginning to end. So the convolution can be
//! computed twice: once for the statistics of each filter, once more for the result. Only the result is
//! written.
//!
//! ```text
//! 1   filters = weight * 2^e, rounded (and the rounding error): operands, in the registers of every warp
//! 2   means, scale = survey of the first PEEK_ROWS rows       # an estimate of the means: any value would do
//!     planes = (those rows - means) * scale, rounded (and the rounding error)    # 16-bit types: as stored
//! 3   for each round, an item of 16 rows x 10 columns to a warp:                 # first pass (`pass`)
//!         start to copy the next STAGING_ROWS rows
//!         for each column of the item (`item::convolve`):
//!             d = planes x filters, over 27 taps and 3 channels               # 16 rows x 16 filters; 16-bit
//!                                                                                # types: - means x filters
//!             sum += d; squares += d * d
//!         wait for the rows; planes = (rows - means) * scale; largest = max(largest, magnitudes)
//!         barrier
//! 4   mean, variance = sums of all warps in their order, in f64
//!     factor, added, lower, upper of each filter                                 # `output::Constants`
//!     if `largest`, known only now, does not suit the scale: repeat from 3, with one that does
//! 5   for each item of the warp:                                                 # second pass
//!         for each column of the item:
//!             d = as in 3
//!             y = max(max over the filters of min(d * factor + added, upper), largest `lower`)
//! ```
//!
//! The norm removes any factor and any constant from a filter's outputs. So scales and means have an effect
//! only through eps, and the bias only if it is not finite. A value of the sample that is not finite makes
//! all outputs of the sample NaN through the statistics, as in the separate operators.
//!
//! # Precision
//! | symbol | products | largest error seen against f64, problem 79 |
//! |---|---|---|
//! | `.._f16x2_f32` | f16 high and low parts, three products of 22 bits in all | 5e-6 |
//! | `.._scaled_f16_f32` | one product of f16, as accurate as tf32 | 5e-3 |
//! | `.._f16`, `.._bf16` | as stored, exact | rounding of the output |
//!
//! On Hopper the 16-bit types have kernels of their own: `warpgroup`.
//!
//! Sums are f32. Results are the same bits in every run, for every division of the batch, and for any number
//! of blocks.
//!
//! # Tiles
//! The constants are in `launch_config` beside the launch shape. An item is 16 rows by 10
//! columns: the rows are the m16 of m16n8k16, two n8 are the 16 filters, and the columns are walked
//! through (`item::convolve`). How pixels become operands: `format`.
//!
//! The rate of `mma.sync` limits the kernel. An m16n8k16 takes a scheduler 6 cycles, most of them for
//! register reads, so other instructions add to that time rather than overlap with it.
//!
//! # Barriers
//! All threads reach all barriers. Three before the filters are in registers, one more before the first pass,
//! one after each round, two around the statistics. In a cluster there are no rounds but one barrier before
//! the pass. All threads of the cluster reach its two barriers after each pass: one when the power sums are
//! stored, and one after which no block reads another's.
//!
//! # Invariants
//! - A round starts only when all rows that its items touch are converted.
//! - `staging` belongs to the filters until every thread has its operands, then to arriving rows, and
//!   when the pass is over to the partial statistics.
//! - In a cluster, all blocks find the same means, scales and largest magnitude, so either all or none repeat
//!   the pass.
//! - The words of depth `d` in plane 1 of the pair formats are complete once depth `d + 1` is.

use core::marker::PhantomData;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared;
use cuda_std::{cluster, cp_async, kernel, math, opaque, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    BLOCK_THREADS, COMMON_WORDS, OUT_CHANNELS, OneLaunch3dGeometry, PEEK_ROWS, PLANE_WORDS,
    STAGING_WORDS, WARPS,
};

mod fill;
mod format;
mod item;
mod output;
mod parameters;
mod pass;
mod survey;
// Only Hopper has `wgmma`.
#[cfg(hopper)]
mod warpgroup;
#[cfg(hopper)]
pub use warpgroup::*;

use fill::{Centre, Filler};
use format::{Bf16, F16, F16x2, Format, ScaledF16};
use item::{Operands, convolve};
use output::Maximum;
use parameters::FilterTensors;
use pass::{Pass, finish_filter, largest_of_warps};

use crate::parts::lanes::sum_of_lanes;
use crate::parts::prescale::prescale_of_finite;
use crate::parts::unroll::unroll;

/// The map of the common area of shared memory, in words.
mod common {
    /// Sums over warp 0's share of the peek, one for each channel, and its pixels.
    pub(super) const SUMS: u32 = 0;
    /// The largest magnitude in each warp.
    pub(super) const LARGEST: u32 = 4;
    /// The largest magnitude of the cluster's block with the warp's number modulo the blocks.
    pub(super) const LARGEST_OF_ALL: u32 = 16;
    /// Scale of each filter.
    pub(super) const SCALES: u32 = 64;
    /// Four constants for each filter.
    pub(super) const CONSTANTS: u32 = 80;
    /// Sums of each filter's channels.
    pub(super) const FILTER_SUMS: u32 = 144;
    /// The multiplier, as stored.
    pub(super) const MULTIPLIER: u32 = 192;
    /// The bias, as stored.
    pub(super) const BIAS: u32 = 208;
    /// Means of the channels.
    pub(super) const MEANS: u32 = 224;
    /// Scale and offsets of the conversion.
    pub(super) const CENTRE: u32 = 228;
    /// The range of the block's items, and the rows that they touch.
    pub(super) const SHARE: u32 = 232;
    /// Items of every block but the last ones, and all items of the sample.
    pub(super) const ITEMS: u32 = 236;
}

/// Range of the largest magnitude, after scaling, that suits the conversion.
const SCALED_MIN: f32 = 0.25;
const SCALED_MAX: f32 = 30_000.0;

/// `BLOCKS` blocks compute a sample of `max(clamp(instance_norm(conv3d(x) * m)) * m, dim=1)`. Several blocks
/// are a cluster.
///
/// *Launch*: `g.shape(planes, BLOCKS)`, `SPLIT_PLANES` for split values, else `PAIR_PLANES`. *Mapping*: items
/// of 16 rows by 10 columns go to the warps in turn; within an item, lanes have the fragments of m16n8k16.
/// *Barriers* and invariants: at the head of the module. *Traffic*: the input once (a cluster: halo rows more
/// often), parameters and first rows once a block, the output once.
///
/// # Safety
/// `x` has `g.input_elements()` elements, `y` has `g.n * g.out_elements()`, `weight` `FILTER_ELEMENTS`,
/// `multiplier`, and `bias` if the geometry says that it exists, `OUT_CHANNELS`; all are 16-byte aligned, and
/// `y` overlaps none of the others. The grid has `BLOCKS` blocks for each of `g.n` samples.
#[kernel(
    instances(BLOCKS: [1], F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, f16: F16, bf16: Bf16]),
    #[cfg(hopper)]
    instances(BLOCKS: [2, 4, 8], F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16]),
    max_threads = BLOCK_THREADS,
    min_blocks = 1,
    cluster_blocks = BLOCKS
)]
pub unsafe fn conv3d_multiply_instance_norm_clamp_multiply_max<F: Format, const BLOCKS: u32>(
    x: *const F::Stored,
    weight: *const F::Stored,
    bias: *const F::Stored,
    multiplier: *const F::Stored,
    y: *mut F::Stored,
    g: &OneLaunch3dGeometry,
) {
    let sample = (thread::block_idx_x() / BLOCKS) as usize;
    let pointer = x;
    let x =
        Global::new(x, g.input_elements()).slice(sample * g.sample_elements(), g.sample_elements());
    let planes = shared::dynamic::<u32>(0, F::PLANES * PLANE_WORDS);
    let staging = shared::dynamic::<u32>(4 * F::PLANES * PLANE_WORDS, STAGING_WORDS);
    let words = shared::dynamic::<u32>(4 * (F::PLANES * PLANE_WORDS + STAGING_WORDS), COMMON_WORDS);
    let floats = words.cast::<f32>();

    let thread = thread::thread_idx_x();
    let lane = warp::lane_id();
    let warp = opaque::uniform(thread / WARP_THREADS);
    let filler = Filler::<F> {
        x,
        planes,
        staging,
        g,
    };

    // 1, with the copies of 2 in flight.
    let parameters = FilterTensors::<F> {
        staging,
        words,
        g,
        format: PhantomData,
    };
    parameters.start(weight, bias, multiplier);
    cp_async::commit_group();
    filler.start_peek();
    cp_async::commit_group();
    cp_async::wait_group::<1>();
    thread::sync_threads();
    parameters.scale();
    thread::sync_threads();
    parameters.lay_out();

    // 2
    cp_async::wait_all();
    thread::sync_threads();
    let (largest, mut sums, pixels) = filler.survey_peek();
    warp::sync_warp(warp::ALL_LANES);
    let of_warp = warp::warp_reduce_max(warp::ALL_LANES, largest.to_bits());
    if warp == 0 {
        unroll!(3, |c| {
            sums[c] = sum_of_lanes::<WARP_THREADS>(sums[c]);
        });
        let pixels = warp::warp_reduce_add(warp::ALL_LANES, pixels);
        if lane == 0 {
            floats.store_vec(common::SUMS, [sums[0], sums[1], sums[2], pixels as f32]);
        }
    }
    if lane == 0 {
        words.store(common::LARGEST + warp, of_warp);
    }
    thread::sync_threads();
    let [sum0, sum1, sum2, pixels] = floats.load_vec::<4>(common::SUMS);
    let each = math::reciprocal_approx(pixels);
    let means = [sum0 * each, sum1 * each, sum2 * each];
    let centre = Centre::new(
        prescale_of_finite(largest_of_warps(words, common::LARGEST)),
        means,
    );
    if BLOCKS == 1 {
        filler.convert_peek(centre);
    }
    let filters = parameters.operands();
    let start = parameters.start_values(means);
    if thread == 0 {
        floats.store_vec(common::MEANS, [means[0], means[1], means[2], 0.0]);
        centre.store(floats);
        if BLOCKS > 1 {
            let share = g.share(cluster::block_rank(), BLOCKS);
            let rows = [share.first_row, share.end_row];
            words.store_vec(common::SHARE, [share.first, share.end, rows[0], rows[1]]);
            words.store_vec(common::ITEMS, [g.share_items(BLOCKS), g.items()]);
        }
    }
    thread::sync_threads();

    // 3
    let operands = Operands {
        planes,
        filters: &filters,
        start,
        g,
    };
    let pass = Pass {
        filler,
        words,
        warp,
    };
    let mut repeated = false;
    loop {
        if BLOCKS == 1 {
            pass.alone(operands, if repeated { 0 } else { PEEK_ROWS });
        } else {
            pass.shared::<BLOCKS>(operands, pointer);
        }

        // 4
        thread::sync_threads();
        let scale = floats.load(common::CENTRE);
        if thread < OUT_CHANNELS {
            finish_filter::<F>(thread, &parameters, pass.partial(BLOCKS), floats, scale, g);
        }
        let all = largest_of_warps(
            words,
            if BLOCKS == 1 {
                common::LARGEST
            } else {
                common::LARGEST_OF_ALL
            },
        );
        thread::sync_threads();
        let scaled = all * scale;
        let suits = (SCALED_MIN..=SCALED_MAX).contains(&scaled) || all == 0.0;
        if !F::CENTRED || suits || repeated || !all.is_finite() {
            break;
        }
        let [m0, m1, m2, _] = floats.load_vec::<4>(common::MEANS);
        if thread == 0 {
            Centre::new(prescale_of_finite(all), [m0, m1, m2]).store(floats);
        }
        if BLOCKS > 1 {
            cluster::wait_all();
        }
        thread::sync_threads();
        repeated = true;
    }

    // 5
    let y = GlobalMut::new(y, g.n as usize * g.out_elements())
        .slice(sample * g.out_elements(), g.out_elements());
    let mut maximum = Maximum::new(y, floats.slice(common::CONSTANTS, 64));
    let [first, end] = if BLOCKS == 1 {
        [0, g.items()]
    } else {
        words.load_vec(common::SHARE)
    };
    let mut item = first + warp;
    while item < end {
        convolve::<F, _>(item, operands, &mut maximum);
        item += WARPS;
    }
    if BLOCKS > 1 {
        cluster::wait_all();
    }
}
