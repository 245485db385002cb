//! Reductions of rows, that is, over the innermost axes.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::warp::{self, ALL_LANES};
use cuda_std::{Storage, bf16, f16, kernel, thread};
use launch_config::row_reduction::{
    BLOCK_THREADS, BLOCK_WARPS, MIN_BLOCKS, PART_ELEMENTS, RowGeometry,
};
use launch_config::{ElementType, VECTOR_ELEMENTS, WARP_THREADS};

use crate::parts::index::div_rem_u64;
use crate::parts::reduction_operations::{ReductionOperation, of_each_operation};
use crate::parts::unroll::unroll;

/// Loads that a lane has in flight.
const LOADS: usize = 4;

/// Partial results of four interleaved series of a lane's elements.
type States<O> = [<O as ReductionOperation>::State; VECTOR_ELEMENTS];

of_each_operation! {
    /// A warp reduces a part of a row: `PART_ELEMENTS` elements, fewer at the row's end.
    ///
    /// *Launch*: `g.shape()`. *Mapping*: a lane reduces four series, each of every 128th element, then
    /// combines them in pairs. A butterfly of shuffles combines the lanes. Loads are vectors of four where
    /// rows are vector-aligned, else elements a warp's width apart. *Barriers*: none. *Traffic*: each element
    /// is read once, each result written once.
    ///
    /// # Safety
    /// `x` has `g.rows` rows of `g.elements` elements, more than 0, and is 16-byte aligned; `y` has
    /// `g.results()` elements of the type `g.output`. They do not overlap.
    #[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
    pub unsafe fn row_reduction<O: ReductionOperation, T: Storage>(
        x: *const T,
        y: *mut T,
        g: &RowGeometry,
    ) {
        let x = Global::new(x, (g.rows * g.elements) as usize);
        let part = thread::block_idx_x() as u64 * BLOCK_WARPS as u64
            + (thread::thread_idx_x() / WARP_THREADS) as u64;
        let lane = (thread::thread_idx_x() % WARP_THREADS) as usize;
        if part >= g.results() {
            return;
        }
        let (row, of_row) = div_rem_u64(part, g.parts);
        let before = of_row * PART_ELEMENTS;
        let len = (g.elements - before).min(PART_ELEMENTS) as usize;
        let first = (row * g.elements + before) as usize;
        let states = if g.elements.is_multiple_of(VECTOR_ELEMENTS as u64) {
            of_vectors::<O, T>(x, first, len, lane)
        } else {
            of_elements::<O, T>(x, first, len, lane)
        };
        let mut all = O::and(O::and(states[0], states[1]), O::and(states[2], states[3]));
        let mut distance = WARP_THREADS / 2;
        while distance > 0 {
            let other = O::map(all, |number| {
                warp::warp_shuffle_xor(ALL_LANES, number, distance, WARP_THREADS).0
            });
            all = O::and(all, other);
            distance /= 2;
        }
        if lane == 0 {
            let (len, at) = (g.results() as usize, part as usize);
            let result = O::finish(all, g.divisor);
            match g.output {
                ElementType::F32 => GlobalMut::new(y.cast::<f32>(), len).store(at, result),
                ElementType::F16 => {
                    GlobalMut::new(y.cast::<f16>(), len).store(at, f16::from_f32(result));
                }
                _ => GlobalMut::new(y.cast::<bf16>(), len).store(at, bf16::from_f32(result)),
            }
        }
    }
}

/// Reduces the lane's share of the `len` elements from `first` on, which are whole vectors, to its four
/// states.
///
/// # Safety
/// `x` has these elements.
#[inline(always)]
unsafe fn of_vectors<O: ReductionOperation, T: Storage>(
    x: Global<T>,
    first: usize,
    len: usize,
    lane: usize,
) -> States<O> {
    const STEP: usize = WARP_THREADS as usize * VECTOR_ELEMENTS;
    let mut states = [O::NONE; VECTOR_ELEMENTS];
    let mut take = |vector: [T; VECTOR_ELEMENTS]| {
        let values = T::to_f32_vector(vector);
        unroll!(4, |i| {
            states[i] = O::and_value(states[i], values[i]);
        });
    };
    let mut at = lane * VECTOR_ELEMENTS;
    while at + (LOADS - 1) * STEP < len {
        let mut vectors = [[T::from_f32(0.0); VECTOR_ELEMENTS]; LOADS];
        unroll!(4, |load| {
            vectors[load] = x.load_vec(first + at + load * STEP);
        });
        unroll!(4, |load| {
            take(vectors[load]);
        });
        at += LOADS * STEP;
    }
    while at < len {
        take(x.load_vec(first + at));
        at += STEP;
    }
    states
}

/// [`of_vectors`] for rows that are not whole vectors, element by element.
///
/// # Safety
/// As for [`of_vectors`].
#[inline(always)]
unsafe fn of_elements<O: ReductionOperation, T: Storage>(
    x: Global<T>,
    first: usize,
    len: usize,
    lane: usize,
) -> States<O> {
    const STEP: usize = WARP_THREADS as usize;
    let mut states = [O::NONE; VECTOR_ELEMENTS];
    let mut at = lane;
    while at + (LOADS - 1) * STEP < len {
        let mut values = [T::from_f32(0.0); LOADS];
        unroll!(4, |load| {
            values[load] = x.load(first + at + load * STEP);
        });
        unroll!(4, |i| {
            states[i] = O::and_value(states[i], values[i].to_f32());
        });
        at += LOADS * STEP;
    }
    unroll!(4, |i| {
        let at = at + i * STEP;
        if at < len {
            states[i] = O::and_value(states[i], x.load(first + at).to_f32());
        }
    });
    states
}
