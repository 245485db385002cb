//! Mean and variance that stay accurate if the mean is far larger than the deviation.
//!
//! The textbook formula, sum of squares less square of the sum, would lose all digits. Instead:
//! 1. A thread takes sixteen elements at a time: first their mean, then their squared deviations from it,
//!    both while the elements are in registers.
//! 2. Chan's formula [1] combines these groups, then threads, warps and blocks. It only ever subtracts means
//!    from each other. Welford's update is its case for a group of one element.
//! 3. The order is fixed, so results are reproducible bit for bit: no atomics, and shuffles that move values
//!    down a fixed tree.
//!
//! [1] T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for
//! computing sample variances", 1979.

use cuda_std::Storage;
use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{math, opaque, thread, warp};
use launch_config::norm::{COUNTED_ELEMENTS, NormGeometry, PARTIAL_ELEMENTS};
use launch_config::{VECTOR_ELEMENTS, WARP_THREADS};

use crate::parts::unroll::unroll;

/// Vectors that a thread has in registers at once.
const VECTORS: usize = 4;

/// Floats of a warp's moments in shared memory: a vector with one unused element.
pub(crate) const WARP_SLOT: u32 = VECTOR_ELEMENTS as u32;

/// Rounds values to their storage type, so that moments are those of the stored values.
#[inline(always)]
pub(crate) fn stored<T: Storage>(values: [f32; 2]) -> [f32; 2] {
    T::to_f32_pair(T::from_f32_pair(values))
}

/// The number of elements, their mean, and the sum of squared deviations from it.
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) count: f32,
    pub(crate) mean: f32,
    pub(crate) m2: f32,
}

impl Moments {
    /// The moments of no elements.
    pub(crate) const EMPTY: Self = Self {
        count: 0.0,
        mean: 0.0,
        m2: 0.0,
    };

    /// The moments of one element.
    #[inline(always)]
    fn of_one(x: f32) -> Self {
        Self {
            count: 1.0,
            mean: x,
            m2: 0.0,
        }
    }

    /// The moments of four elements.
    #[inline(always)]
    fn of_vector<T: Storage>(v: [T; VECTOR_ELEMENTS]) -> Self {
        let sum = (v[0].to_f32() + v[1].to_f32()) + (v[2].to_f32() + v[3].to_f32());
        let mean = sum * (1.0 / VECTOR_ELEMENTS as f32);
        let mut m2 = 0.0;
        unroll!(4, |i| {
            let deviation = v[i].to_f32() - mean;
            m2 = math::fma(deviation, deviation, m2);
        });
        Self {
            count: VECTOR_ELEMENTS as f32,
            mean,
            m2,
        }
    }

    /// The moments of sixteen elements.
    #[inline(always)]
    fn of_vectors<T: Storage>(vectors: [[T; VECTOR_ELEMENTS]; VECTORS]) -> Self {
        const COUNT: f32 = (VECTORS * VECTOR_ELEMENTS) as f32;
        let mut sums = [0.0f32; VECTORS];
        unroll!(4, |v| {
            let x = vectors[v];
            sums[v] = (x[0].to_f32() + x[1].to_f32()) + (x[2].to_f32() + x[3].to_f32());
        });
        let mean = ((sums[0] + sums[1]) + (sums[2] + sums[3])) * (1.0 / COUNT);
        let mut squares = [0.0f32; VECTORS];
        unroll!(4, |v| {
            unroll!(4, |i| {
                let deviation = vectors[v][i].to_f32() - mean;
                squares[v] = math::fma(deviation, deviation, squares[v]);
            });
        });
        Self {
            count: COUNT,
            mean,
            m2: (squares[0] + squares[1]) + (squares[2] + squares[3]),
        }
    }

    /// The moments of the first `count` of eight values.
    #[inline(always)]
    pub(crate) fn of_first(values: &[f32; 8], count: u32) -> Self {
        if count == 0 {
            return Self::EMPTY;
        }
        let all = count as f32;
        let mut sum = 0.0;
        unroll!(8, |i| {
            sum += if (i as u32) < count { values[i] } else { 0.0 };
        });
        let mean = sum * math::reciprocal_approx(all);
        let mut m2 = 0.0;
        unroll!(8, |i| {
            let deviation = if (i as u32) < count {
                values[i] - mean
            } else {
                0.0
            };
            m2 = math::fma(deviation, deviation, m2);
        });
        Self {
            count: all,
            mean,
            m2,
        }
    }

    /// Combines the moments of two sets of elements. If one set is empty, the result is exactly the other.
    #[inline(always)]
    pub(crate) fn and(self, other: Self) -> Self {
        if other.count == 0.0 {
            return self;
        }
        if self.count == 0.0 {
            return other;
        }
        let count = self.count + other.count;
        // The error is at most an ulp, like the rounding of the product that it enters.
        let share = other.count * math::reciprocal_approx(count);
        let delta = other.mean - self.mean;
        Self {
            count,
            mean: math::fma(delta, share, self.mean),
            m2: math::fma(delta * share, delta * self.count, self.m2 + other.m2),
        }
    }

    /// The mean squared deviation.
    #[inline(always)]
    pub(crate) fn variance(self) -> f32 {
        self.m2 / self.count
    }

    /// The reciprocal standard deviation, `1 / sqrt(variance + eps)`.
    #[inline(always)]
    pub(crate) fn rstd(self, eps: f32) -> f32 {
        math::rsqrt(self.variance() + eps)
    }

    /// The moments of the lane `distance` lanes up, or this lane's own if there is none.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(crate) unsafe fn of_lane_behind(self, distance: u32) -> Self {
        let down =
            |value| warp::warp_shuffle_down(warp::ALL_LANES, value, distance, WARP_THREADS).0;
        Self {
            count: down(self.count),
            mean: down(self.mean),
            m2: down(self.m2),
        }
    }

    /// Combines the moments of all lanes; lane 0 has the result.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(crate) unsafe fn of_warp(self) -> Self {
        let mut all = self;
        let mut distance = WARP_THREADS / 2;
        while distance > 0 {
            all = all.and(all.of_lane_behind(distance));
            distance /= 2;
        }
        all
    }

    /// [`of_warp`](Self::of_warp) of two sets of moments at once, then combined. The results are those of two
    /// warps. The two chains of additions are independent, so their latencies overlap.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    unsafe fn of_two_warps([mut first, mut second]: [Self; 2]) -> Self {
        let mut distance = WARP_THREADS / 2;
        while distance > 0 {
            opaque::not_unrolled();
            first = first.and(first.of_lane_behind(distance));
            second = second.and(second.of_lane_behind(distance));
            distance = opaque::to_compiler(distance / 2);
        }
        first.and(second)
    }

    /// Combines the moments of all threads of a block of `warps` warps; thread 0 has the result.
    ///
    /// # Safety
    /// All threads of the block call it together. `scratch` holds [`WARP_SLOT`] numbers a warp, which nothing
    /// else uses.
    #[inline(always)]
    pub(crate) unsafe fn of_block(self, scratch: Shared<f32>, warps: u32) -> Self {
        let thread = thread::thread_idx_x();
        let of_warp = self.of_warp();
        if thread.is_multiple_of(WARP_THREADS) {
            let slot = thread / WARP_THREADS * WARP_SLOT;
            scratch.store_vec(slot, [of_warp.count, of_warp.mean, of_warp.m2, 0.0]);
        }
        thread::sync_threads();
        let mut all = Self::EMPTY;
        if thread < WARP_THREADS {
            if thread < warps {
                let [count, mean, m2, _] = scratch.load_vec::<4>(thread * WARP_SLOT);
                all = Self { count, mean, m2 };
            }
            all = all.of_warp();
        }
        all
    }
}

/// Returns the start and end of the whole aligned vectors among the elements `start..end` of a tensor. Up to
/// three elements precede them, and up to three follow.
#[inline(always)]
pub(crate) fn whole_vectors(start: usize, end: usize) -> (usize, usize) {
    let vectors_start = start.next_multiple_of(VECTOR_ELEMENTS).min(end);
    let vectors_end = (end - end % VECTOR_ELEMENTS).max(vectors_start);
    (vectors_start, vectors_end)
}

/// The moments of thread `thread`'s share of the elements `start..end` of `x`, which `threads` threads
/// divide. Shares consist of groups of four consecutive elements, counted from `start`, so the bits of the
/// moments do not depend on the position of the range. If `start` is a multiple of four, these groups are
/// vectors, and `keep` is called with the position and the values of each. For other ranges it is not called.
///
/// # Safety
/// `start <= end <= x.len()`, `x` is 16-byte aligned, and `threads` is at least 3.
#[inline(always)]
pub(crate) unsafe fn of_range<T: Storage>(
    x: Global<T>,
    start: usize,
    end: usize,
    thread: usize,
    threads: usize,
    keep: impl Fn(usize, [T; VECTOR_ELEMENTS]),
) -> Moments {
    let vectors_end = end - (end - start) % VECTOR_ELEMENTS;
    let step = threads * VECTOR_ELEMENTS;
    // Uniform over the threads that reduce this range.
    let is_aligned = start.is_multiple_of(VECTOR_ELEMENTS);
    let apart = |at: usize| [x.load(at), x.load(at + 1), x.load(at + 2), x.load(at + 3)];

    let mut all = Moments::EMPTY;
    let mut at = start + thread * VECTOR_ELEMENTS;
    // Two loops, because vector and scalar loads in one loop take more registers.
    if is_aligned {
        while at + (VECTORS - 1) * step < vectors_end {
            let mut vectors = [[T::from_f32(0.0); VECTOR_ELEMENTS]; VECTORS];
            unroll!(4, |v| {
                vectors[v] = x.load_vec(at + v * step);
            });
            unroll!(4, |v| {
                keep(at + v * step, vectors[v]);
            });
            all = all.and(Moments::of_vectors(vectors));
            at += VECTORS * step;
        }
        while at < vectors_end {
            let vector = x.load_vec(at);
            keep(at, vector);
            all = all.and(Moments::of_vector(vector));
            at += step;
        }
    } else {
        while at + (VECTORS - 1) * step < vectors_end {
            let mut vectors = [[T::from_f32(0.0); VECTOR_ELEMENTS]; VECTORS];
            unroll!(4, |v| {
                vectors[v] = apart(at + v * step);
            });
            all = all.and(Moments::of_vectors(vectors));
            at += VECTORS * step;
        }
        while at < vectors_end {
            all = all.and(Moments::of_vector(apart(at)));
            at += step;
        }
    }

    if thread < end - vectors_end {
        let last = x.load(vectors_end + thread);
        all = all.and(Moments::of_one(last.to_f32()));
    }
    all
}

/// Elements of split `split` of a row.
#[inline(always)]
fn split_count(g: &NormGeometry, split: u32) -> f32 {
    let start = split as u64 * g.split_elements;
    g.split_elements.min(g.row_elements - start) as f32
}

/// The partial result of split `split` of row `row`.
#[inline(always)]
pub(crate) unsafe fn partial(
    partials: Global<f32>,
    g: &NormGeometry,
    row: u64,
    split: u32,
) -> Moments {
    let index = (row * g.splits as u64 + split as u64) as usize;
    if g.partials.are_counted() {
        let [count, mean, m2, _] = partials.load_vec::<COUNTED_ELEMENTS>(index * COUNTED_ELEMENTS);
        return Moments { count, mean, m2 };
    }
    let index = index * PARTIAL_ELEMENTS;
    let [mean, m2] = partials.load_vec::<PARTIAL_ELEMENTS>(index);
    Moments {
        count: split_count(g, split),
        mean,
        m2,
    }
}

/// Computes the moments of the rows `first..first + count`. For each row, one thread of the block calls
/// `done` with the row's index less `first` and its moments. One thread takes a row that is not split, one
/// warp a row that is.
///
/// # Safety
/// All threads of the block call it together, with equal arguments. The block has whole warps. `partials` is
/// `g`'s buffer of partial results, and `first + count <= g.rows`. If partial results are counted, a row has
/// at most `COMBINED_BY_WARP` splits.
#[inline(always)]
pub(crate) unsafe fn for_each_row(
    partials: Global<f32>,
    g: &NormGeometry,
    first: u64,
    count: u32,
    done: impl Fn(u32, Moments),
) {
    let thread = thread::thread_idx_x();
    let threads = thread::block_dim_x();
    if g.splits == 1 {
        let mut row = thread;
        while row < count {
            done(row, partial(partials, g, first + row as u64, 0));
            row += threads;
        }
        return;
    }
    let lane = thread % WARP_THREADS;
    let mut row = thread / WARP_THREADS;
    while row < count {
        let (mut all, mut behind) = (Moments::EMPTY, Moments::EMPTY);
        let mut split = lane;
        while split < g.splits {
            let moments = partial(partials, g, first + row as u64, split);
            // Counted partial results are combined in the order of the launch that combines them with two
            // warps, of which the second has these splits.
            if g.partials.are_counted() && split >= WARP_THREADS {
                behind = moments;
            } else {
                all = all.and(moments);
            }
            split += WARP_THREADS;
        }
        let all = Moments::of_two_warps([all, behind]);
        if lane == 0 {
            done(row, all);
        }
        row += threads / WARP_THREADS;
    }
}
