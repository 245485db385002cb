//! The epilogue of a sample: combines moments over warpgroups and blocks, computes the affine parameters of
//! each channel, and writes the pooled rows.

use cuda_std::global::GlobalMut;
use cuda_std::mbarrier::Barrier;
use cuda_std::shared::Shared;
use cuda_std::{Storage, barrier, cluster, math, opaque, warp};
use launch_config::WARP_THREADS;
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    AFFINE_BYTES, CONV_WIDTH, HalfRows, MOMENTS_BYTES, OUT_CHANNELS, OUT_WIDTH,
    OneLaunch2dGeometry, POOL, RECEIVED_BYTES, WARPGROUP_THREADS, turns,
};

use super::Arguments;
use super::format::Format;
use super::memory::Memory;
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// The named barrier of all consumer warpgroups.
pub(super) const CONSUMER_BARRIER: u32 = 2;

/// Words of one channel's moments.
const MOMENTS_WORDS: u32 = MOMENTS_BYTES / 4;
/// Words of one channel's affine parameters.
const AFFINE_WORDS: u32 = AFFINE_BYTES / 4;

/// Count, mean, and M2, the sum of squared deviations from the mean.
#[derive(Clone, Copy)]
pub(super) struct Moments {
    count: f32,
    mean: f32,
    m2: f32,
}

impl Moments {
    /// Moments of no elements.
    const NONE: Self = Self {
        count: 0.0,
        mean: 0.0,
        m2: 0.0,
    };

    /// Moments of `count` elements from sums about `shift`.
    #[inline(always)]
    pub(super) fn about(shift: f32, count: f32, sum: f32, squares: f32) -> Self {
        let mean = if count > 0.0 { sum / count } else { 0.0 };
        Self {
            count,
            mean: shift + mean,
            m2: squares - sum * mean,
        }
    }

    /// Combines two sets by Chan's formula.
    #[inline(always)]
    fn with(self, other: Self) -> Self {
        let count = self.count + other.count;
        let share = if count > 0.0 {
            other.count / count
        } else {
            0.0
        };
        let apart = other.mean - self.mean;
        Self {
            count,
            mean: math::fma(apart, share, self.mean),
            m2: self.m2 + other.m2 + apart * apart * (self.count * share),
        }
    }

    /// Combines the moments of four neighbouring lanes. The result is valid in the first of them.
    ///
    /// # Safety
    /// All lanes of the warp make this call.
    #[inline(always)]
    pub(super) unsafe fn of_quad(self) -> Self {
        let mut all = self;
        let mut distance = 1;
        while distance < 4 {
            let from =
                |value| warp::warp_shuffle_xor(warp::ALL_LANES, value, distance, WARP_THREADS).0;
            all = all.with(Self {
                count: from(all.count),
                mean: from(all.mean),
                m2: from(all.m2),
            });
            distance *= 2;
        }
        all
    }
}

/// Stores a warpgroup's moments of a channel in shared memory.
#[inline(always)]
pub(super) unsafe fn keep(memory: &Memory, warpgroup: u32, channel: u32, moments: Moments) {
    let at = (warpgroup * OUT_CHANNELS + channel) * MOMENTS_WORDS;
    memory.moments.store(at, moments.count);
    memory.moments.store(at + 1, moments.mean);
    memory.moments.store(at + 2, moments.m2);
}

/// Bytes of statistics that a block receives for a sample.
pub(super) const fn bytes<F: Format>() -> u32 {
    F::CONFIG.received() * OUT_CHANNELS * RECEIVED_BYTES
}

/// Sends this block's moments of a channel to every block of the cluster, including this one.
///
/// # Safety
/// As the kernels. `rank` is this block's rank in the cluster, and every block waits for the moments of
/// `item` before it ends.
#[inline(always)]
pub(super) unsafe fn send<F: Format>(
    memory: &Memory,
    rank: u32,
    channel: u32,
    item: u32,
    moments: Moments,
) {
    let place = item & 1;
    let exchanged = Barrier::at(memory.exchanged, place);
    let to = received::<F>(memory, place, rank, channel);
    let mut block = 0;
    while block < F::CONFIG.cluster_blocks() {
        let sent = [moments.mean, moments.m2];
        cluster::store_async(to.addr(0), exchanged, block, sent);
        block += 1;
    }
}

/// The words where mean and M2 of channel `k` arrive, in set `set` of the sample parity `place`.
#[inline(always)]
unsafe fn received<F: Format>(memory: &Memory, place: u32, set: u32, k: u32) -> Shared<f32> {
    const WORDS: u32 = RECEIVED_BYTES / 4;
    let at = (place * F::CONFIG.received() + set) * OUT_CHANNELS + k;
    memory.partner.slice(at * WORDS, WORDS)
}

/// The moments of channel `k` in a half whose warpgroups' sets start with set `first`, combined in the same
/// order as in a block that has all of them.
#[inline(always)]
unsafe fn of_half<F: Format>(
    memory: &Memory,
    rows: &HalfRows,
    place: u32,
    first: u32,
    k: u32,
) -> Moments {
    let of_warpgroup = |i| {
        let from = received::<F>(memory, place, first + i, k);
        Moments {
            count: (rows.rows_of(i, F::CONFIG.consumers) * CONV_WIDTH) as f32,
            mean: from.load(0),
            m2: from.load(1),
        }
    };
    let mut all = of_warpgroup(0);
    let mut i = 1;
    while i < F::CONFIG.consumers {
        all = all.with(of_warpgroup(i));
        i += 1;
    }
    all
}

/// Combines the moments of all consumer warpgroups, and writes the block's pooled rows of the sample.
///
/// # Safety
/// As the kernels. All consumer threads make this call; `thread` is the index among them.
#[inline(always)]
pub(super) unsafe fn finish<F: Format>(
    arguments: &Arguments<F::Stored>,
    g: &OneLaunch2dGeometry,
    memory: &Memory,
    rows: &HalfRows,
    sample: u32,
    item: u32,
    thread: u32,
) {
    let threads = F::CONFIG.consumers * WARPGROUP_THREADS;
    barrier::sync(CONSUMER_BARRIER, threads);
    // Opaque in the 16-bit formats, so that the assembler keeps no value computed from it in registers during
    // the mainloop. In f32, the assembler has no register left for this `opaque` itself.
    let k = if F::SCALED {
        thread
    } else {
        opaque::to_assembler(thread)
    };
    // The condition is uniform over a warp. `uniform` tells the assembler; otherwise it would treat the
    // branch as divergent and keep addresses out of uniform registers. The condition is evaluated each time,
    // because the compiler would otherwise copy the barriers into the branches.
    let has_channel = || opaque::uniform(thread) < OUT_CHANNELS;
    if has_channel() {
        let all = gather::<F>(g, memory, item, thread);
        keep_channel(g, memory, k, &all);
    }
    barrier::sync(CONSUMER_BARRIER, threads);
    if has_channel() {
        affine(g, memory, k);
    }
    barrier::sync(CONSUMER_BARRIER, threads);
    write::<F>(arguments, g, memory, rows, sample, thread);
    // The next sample's maxima overwrite these.
    barrier::sync(CONSUMER_BARRIER, threads);
}

/// The moments of channel `k` in the whole sample, from all warpgroups of all blocks.
#[inline(always)]
unsafe fn gather<F: Format>(
    g: &OneLaunch2dGeometry,
    memory: &Memory,
    item: u32,
    k: u32,
) -> Moments {
    let warpgroups = F::CONFIG.consumers;
    let rank = cluster::block_rank();
    let (place, phase) = (item & 1, item >> 1 & 1);
    let exchanged = Barrier::at(memory.exchanged, place);
    let mut mine = Moments::NONE;
    if F::CONFIG.blocks_per_half == 1 {
        mine = load(memory, 0, k);
        let mut i = 1;
        while i < warpgroups {
            mine = mine.with(load(memory, i, k));
            i += 1;
        }
        let partner = received::<F>(memory, place, 0, k);
        let sent = [mine.mean, mine.m2];
        cluster::store_async(partner.addr(0), exchanged, 1 - rank, sent);
    }
    cluster::wait(exchanged, phase);
    if F::CONFIG.blocks_per_half == 1 {
        let partner = received::<F>(memory, place, 0, k);
        let theirs = Moments {
            count: (g.half_rows(1 - rank).rows * CONV_WIDTH) as f32,
            mean: partner.load(0),
            m2: partner.load(1),
        };
        // In the same order in both blocks, so that both get the same bits.
        if rank == 0 {
            mine.with(theirs)
        } else {
            theirs.with(mine)
        }
    } else {
        let upper = of_half::<F>(memory, &g.half_rows(0), place, 0, k);
        let lower = of_half::<F>(memory, &g.half_rows(1), place, warpgroups, k);
        upper.with(lower)
    }
}

/// The first channel of the group of channel `k`.
#[inline(always)]
unsafe fn first_of_group(g: &OneLaunch2dGeometry, k: u32) -> u32 {
    let (_, in_group) = div_rem(k, g.group_channels);
    k - in_group
}

/// -1 where the filters of channel `k` are negated, else 1.
#[inline(always)]
unsafe fn sign_of(memory: &Memory, k: u32) -> f32 {
    if memory.channels.load(k) < 0.0 {
        -1.0
    } else {
        1.0
    }
}

/// The bias of channel `k` less that of the first channel of its group. Means of a group are relative to the
/// latter, so large biases cancel exactly.
#[inline(always)]
unsafe fn bias_in_group(g: &OneLaunch2dGeometry, memory: &Memory, k: u32) -> f32 {
    memory.channels.load(OUT_CHANNELS + k)
        - memory.channels.load(OUT_CHANNELS + first_of_group(g, k))
}

/// Stores the moments of channel `k` for the other channels of its group. They overwrite a warpgroup's
/// moments of this channel, which no other thread reads.
#[inline(always)]
unsafe fn keep_channel(g: &OneLaunch2dGeometry, memory: &Memory, k: u32, all: &Moments) {
    let mean = math::fma(sign_of(memory, k), all.mean, bias_in_group(g, memory, k));
    memory.moments.store(k * MOMENTS_WORDS, mean);
    memory.moments.store(k * MOMENTS_WORDS + 1, all.m2);
    memory.moments.store(k * MOMENTS_WORDS + 2, all.count);
}

/// Stores the affine parameters of channel `k`, from the statistics of its group.
#[inline(always)]
unsafe fn affine(g: &OneLaunch2dGeometry, memory: &Memory, k: u32) {
    let count = memory.moments.load(k * MOMENTS_WORDS + 2);
    let sign = sign_of(memory, k);
    let bias = bias_in_group(g, memory, k);
    let factor = memory.channels.load(2 * OUT_CHANNELS + k);
    let summand = memory.channels.load(3 * OUT_CHANNELS + k);
    let first = first_of_group(g, k);
    let end = first + g.group_channels;
    let mut mean = 0.0;
    let mut i = first;
    while i < end {
        mean += memory.moments.load(i * MOMENTS_WORDS);
        i += 1;
    }
    mean /= g.group_channels as f32;
    let mut squares = 0.0;
    i = first;
    while i < end {
        let apart = memory.moments.load(i * MOMENTS_WORDS) - mean;
        let own = memory.moments.load(i * MOMENTS_WORDS + 1);
        squares += math::fma(apart * apart, count, own);
        i += 1;
    }
    let variance = squares / (g.group_channels as f32 * count);
    let rstd = 1.0 / math::sqrt(variance + g.eps);
    // `(max(y) - mean) * factor * rstd + summand`, for maxima without the bias and perhaps negated.
    let at = k * AFFINE_WORDS;
    memory.affine.store(at, (mean - bias) * sign);
    memory.affine.store(at + 1, factor * sign * rstd);
    memory.affine.store(at + 2, summand);
}

#[inline(always)]
unsafe fn load(memory: &Memory, warpgroup: u32, channel: u32) -> Moments {
    let at = (warpgroup * OUT_CHANNELS + channel) * MOMENTS_WORDS;
    Moments {
        count: memory.moments.load(at),
        mean: memory.moments.load(at + 1),
        m2: memory.moments.load(at + 2),
    }
}

/// Writes the block's pooled rows, a warp to a channel, whose rows are contiguous in the output.
#[inline(always)]
unsafe fn write<F: Format>(
    arguments: &Arguments<F::Stored>,
    g: &OneLaunch2dGeometry,
    memory: &Memory,
    rows: &HalfRows,
    sample: u32,
    thread: u32,
) {
    const { assert!(F::CONFIG.pool_rows() * OUT_WIDTH <= 16 * WARP_THREADS) };
    // The block has every `blocks`-th pooled row of the half.
    let blocks = F::CONFIG.blocks_per_half;
    let block = if blocks == 1 {
        0
    } else {
        cluster::block_rank() % blocks
    };
    // Opaque, so that the assembler keeps no value computed from it in registers during the mainloop.
    let thread = opaque::to_assembler(thread);
    let lane = thread % WARP_THREADS;
    let of_channel = ((g.half_rows(0).pooled + g.half_rows(1).pooled) * OUT_WIDTH) as usize;
    let y = GlobalMut::new(
        arguments.y,
        g.n as usize * OUT_CHANNELS as usize * of_channel,
    );
    let first = ((rows.first / POOL + block) * OUT_WIDTH) as usize;
    let values = turns(rows.pooled, block, blocks) * OUT_WIDTH;
    let mut k = thread / WARP_THREADS;
    while k < OUT_CHANNELS {
        let affine = k * AFFINE_WORDS;
        let center = memory.affine.load(affine);
        let slope = memory.affine.load(affine + 1);
        let summand = memory.affine.load(affine + 2);
        let from = k * F::CONFIG.pooled_pitch();
        let to = (sample as usize * OUT_CHANNELS as usize + k as usize) * of_channel + first;
        // All loads before all stores: their latencies overlap.
        let mut value = [0.0; 16];
        unroll!(16, |i| {
            let at = nth::<F>(lane, i as u32);
            if at < values {
                value[i] = memory.pooled.load(from + at);
            }
        });
        unroll!(16, |i| {
            let at = nth::<F>(lane, i as u32);
            if at < values {
                let skipped = at / OUT_WIDTH * (blocks - 1) * OUT_WIDTH;
                let mapped = math::fma(value[i] - center, slope, summand);
                let clamped = math::min_nan(math::max_nan(mapped, g.min), g.max);
                y.store(to + (at + skipped) as usize, F::Stored::from_f32(clamped));
            }
        });
        k += F::CONFIG.consumers * WARPGROUP_THREADS / WARP_THREADS;
    }
}

/// The index of the lane's `i`-th value within a channel, or `u32::MAX` beyond the pooled rows.
#[inline(always)]
const fn nth<F: Format>(lane: u32, i: u32) -> u32 {
    if i * WARP_THREADS < F::CONFIG.pool_rows() * OUT_WIDTH {
        lane + i * WARP_THREADS
    } else {
        u32::MAX
    }
}
