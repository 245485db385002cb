//! The producer warpgroup.

use cuda_std::mbarrier::Barrier;
use cuda_std::{Storage, async_proxy, barrier, cluster, f16, mma, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    FILTER, HalfRows, IN_CHANNELS, OneLaunch2dGeometry, PART_BYTES, PIXEL_BYTES, POOL,
    STRIDE_PHASE_BYTES, TILE_ROWS, WARPGROUP_THREADS, WIDTH,
};

use super::format::{Format, Pixel};
use super::memory::Memory;
use super::{Arguments, WARPS};
use crate::parts::unroll::unroll;

/// The named barrier of the producer warpgroup.
const PRODUCER_BARRIER: u32 = 1;

const STRIDE_PHASE_WORDS: u32 = STRIDE_PHASE_BYTES / 4;
const PART_WORDS: u32 = PART_BYTES / 4;
const PIXEL_WORDS: u32 = PIXEL_BYTES / 4;

/// The input tile to load next.
struct Cursor {
    sample: u32,
    tile: u32,
}

impl Cursor {
    /// Advances to the next input tile, after the last one to the first of the cluster's next sample.
    #[inline(always)]
    fn advance(&mut self, rows: &HalfRows, clusters: u32) {
        self.tile += 1;
        if self.tile == rows.input_tiles {
            self.tile = 0;
            self.sample += clusters;
        }
    }
}

/// The power of two by which inputs are multiplied, and the magnitude from which it must be lowered.
struct Scale {
    exponent: i32,
    factor: f32,
    /// The first magnitude that is too large.
    limit: f32,
}

impl Scale {
    /// The largest magnitude of the rows that choose the scale is brought between 2^11 and 2^12. A value
    /// eight times as large still fits f16, and one 2^25 times smaller still has 11 bits in its low part.
    const TARGET: i32 = 11;
    /// A scaled magnitude of 2^15 or more is too large for f16.
    const LIMIT: i32 = 15;
    /// Inputs that would need a larger exponent have squares below the range of f32 statistics.
    const MAX: i32 = 100;
    const BIAS: i32 = 127;

    #[inline(always)]
    fn none() -> Self {
        Self {
            exponent: 0,
            factor: 1.0,
            limit: 0.0,
        }
    }

    /// The scale for inputs whose largest magnitude has the bits `magnitude`.
    #[inline(always)]
    fn of(magnitude: u32) -> Self {
        let exponent = (Self::TARGET + Self::BIAS - (magnitude >> 23) as i32).min(Self::MAX);
        let limit = (Self::LIMIT - exponent + Self::BIAS).min(255);
        Self {
            exponent,
            factor: power(exponent),
            limit: f32::from_bits((limit as u32) << 23),
        }
    }
}

/// `2^exponent`, for a normal result.
#[inline(always)]
fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent + Scale::BIAS) as u32) << 23)
}

/// Loads, converts and stores the input tiles of the block's half of each of its samples.
///
/// # Safety
/// As the kernels. All threads of the producer warpgroup make this call.
#[inline(always)]
pub(super) unsafe fn produce<F: Format>(
    arguments: &Arguments<F::Stored>,
    g: &OneLaunch2dGeometry,
    memory: &Memory,
) {
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / WARP_THREADS, thread % WARP_THREADS);
    let rows = g.half_rows(cluster::block_rank() / F::CONFIG.blocks_per_half);
    let clusters = thread::grid_dim_x() / F::CONFIG.cluster_blocks();
    let plane = (g.height * WIDTH) as usize;
    let elements = g.n as usize * IN_CHANNELS as usize * plane;
    let mut sample = thread::block_idx_x() / F::CONFIG.cluster_blocks();
    if sample >= g.n {
        return;
    }

    let mut next = Cursor { sample, tile: 0 };
    let mut fetch = || {
        let row = next.tile * TILE_ROWS + warp;
        let raw = if next.sample < g.n && row < rows.input_rows {
            let in_plane = (rows.first + row) * WIDTH + lane * POOL;
            let at = next.sample as usize * IN_CHANNELS as usize * plane + in_plane as usize;
            F::load(arguments.x, elements, at, plane)
        } else {
            F::zero()
        };
        next.advance(&rows, clusters);
        raw
    };
    let mut ahead = [F::zero(); 4];
    unroll!(4, |i| {
        if i < F::LOADS_AHEAD {
            ahead[i] = fetch();
        }
    });

    let stages = F::CONFIG.stages;
    let row_words = F::CONFIG.row_bytes() / 4;
    let mut scale = Scale::none();
    let (mut count, mut tile) = (0, 0);
    'tiles: loop {
        unroll!(4, |i| {
            if i < F::LOADS_AHEAD {
                let raw = &ahead[i];
                let stage = count % stages;
                let mut lowered = 0;
                if F::SCALED {
                    let most = largest(memory, F::magnitude(raw), count % 2, warp, lane);
                    if tile == 0 || f32::from_bits(most) >= scale.limit {
                        let chosen = Scale::of(most);
                        if tile > 0 {
                            lowered = scale.exponent - chosen.exponent;
                        }
                        scale = chosen;
                    }
                }
                if count >= stages {
                    Barrier::at(memory.empty, stage).wait((count / stages + 1) & 1);
                }
                if F::SCALED && lowered > 0 {
                    if tile >= 2 {
                        let output_tile = count - 2;
                        Barrier::at(memory.empty, output_tile % stages)
                            .wait((output_tile / stages) & 1);
                    }
                    let row = (count - 1) % stages * TILE_ROWS + warp;
                    rescale(memory, row * row_words, row_words, lane, lowered);
                }
                if tile * TILE_ROWS + warp < rows.input_rows {
                    let row = (stage * TILE_ROWS + warp) * row_words;
                    store::<F>(memory, row, raw, scale.factor, lane);
                }
                if F::SCALED && thread == 0 {
                    memory.descale.store(stage, power(-scale.exponent));
                }
                async_proxy::fence_shared();
                warp::sync_warp(warp::ALL_LANES);
                if lane == 0 {
                    Barrier::at(memory.full, stage).arrive();
                }
                count += 1;
                tile += 1;
                if tile == rows.input_tiles {
                    tile = 0;
                    sample += clusters;
                }
                if sample >= g.n {
                    break 'tiles;
                }
                ahead[i] = fetch();
            }
        });
    }
}

/// The bits of the largest finite magnitude in the input tile. Infinity and NaN make the sample NaN under any
/// scale, so they do not count.
#[inline(always)]
unsafe fn largest(memory: &Memory, magnitude: f32, parity: u32, warp: u32, lane: u32) -> u32 {
    let bits = if magnitude < f32::INFINITY {
        magnitude.to_bits()
    } else {
        0
    };
    // Non-negative floats have the same order as their bits.
    let of_warp = warp::warp_reduce_max(warp::ALL_LANES, bits);
    if lane == 0 {
        memory.magnitudes.store(parity * WARPS + warp, of_warp);
    }
    // One barrier is enough: the words of the other parity are written only after the next one.
    barrier::sync(PRODUCER_BARRIER, WARPGROUP_THREADS);
    let [a, b, c, d] = memory.magnitudes.load_vec(parity * WARPS);
    a.max(b).max(c.max(d))
}

/// Multiplies a stored row by `2^-lowered`, each lane the pixels of its pooling window.
#[inline(always)]
unsafe fn rescale(memory: &Memory, row: u32, row_words: u32, lane: u32, lowered: i32) {
    let factor = power(-lowered.min(Scale::BIAS - 1));
    let half = |bits: u32| Storage::to_f32(f16::from_bits(bits as u16)) * factor;
    let mut at = row + lane * PIXEL_WORDS;
    while at < row + row_words {
        let mut pixel: Pixel = memory.pipeline.load_vec(at);
        unroll!(4, |c| {
            pixel[c] = mma::pack_f16x2(half(pixel[c]), half(pixel[c] >> 16));
        });
        memory.pipeline.store_vec(at, pixel);
        at += STRIDE_PHASE_WORDS;
    }
}

/// Stores the lane's four pixels of a row (its pooling window) as K-vectors.
#[inline(always)]
unsafe fn store<F: Format>(memory: &Memory, row: u32, raw: &F::Raw, scale: f32, lane: u32) {
    let mine = row + lane * PIXEL_WORDS;
    // Stride phases 4 and 5 repeat 0 and 1, one window to the left. Their last window is beyond the right
    // edge of the image: lane 0 stores zeros there.
    let left = row + (lane + WARP_THREADS - 1) % WARP_THREADS * PIXEL_WORDS;
    unroll!(4, |i| {
        let parts = F::pixel(raw, i, scale);
        unroll!(2, |part| {
            if (part as u32) < F::CONFIG.parts {
                let stride_phase = part as u32 * PART_WORDS + i as u32 * STRIDE_PHASE_WORDS;
                memory.pipeline.store_vec(mine + stride_phase, parts[part]);
                if (i as u32) < FILTER - 1 {
                    let shown = if lane == 0 { [0; 4] } else { parts[part] };
                    memory
                        .pipeline
                        .store_vec(left + stride_phase + POOL * STRIDE_PHASE_WORDS, shown);
                }
            }
        });
    });
}
