//! The values along an axis (a series), which threads of a block share and hold in registers.

pub(crate) mod reduce;
pub(crate) mod store;

use core::mem::size_of;

use cuda_std::global::Global;
use cuda_std::{Storage, opaque, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::series::{HELD, MAPPED, PART, PARTS, SeriesGeometry};

use crate::parts::index::div_rem_u64;
use crate::parts::unroll::unroll;

const _: () = assert!(HELD == 32 && PARTS == 2 && MAPPED == 8 && VECTOR_ELEMENTS == 4);

const VECTOR: u32 = VECTOR_ELEMENTS as u32;

/// A thread's values of a series, or of several rows. If `ROWS`, series are always rows.
///
/// The threads of a series take four consecutive values in turn if its length is a multiple of four, else
/// single values.
#[derive(Clone, Copy)]
pub(crate) struct Series<'a, const ROWS: bool> {
    g: &'a SeriesGeometry,
    /// The number of parts that have a series. The others are neither loaded nor stored.
    parts: u32,
    /// The number of the thread's values in a series.
    count: u32,
    /// The index in the tensor of the thread's first value.
    first: u64,
}

/// Where values of a thread are: a pointer to the first, and bytes from each to the next one of four, from
/// four to the next four, and from part to part.
struct Walk<T> {
    first: *const T,
    to_next: usize,
    to_vector: usize,
    to_part: usize,
}

impl<T> Walk<T> {
    /// Calls `f` with the number of each of `N` values, and a pointer to it.
    #[inline(always)]
    fn each<const N: usize>(&self, mut f: impl FnMut(usize, *const T)) {
        let mut of_vector = self.first;
        unroll!(8, |v| {
            let number = v * VECTOR_ELEMENTS;
            if number == PART {
                of_vector = self.first.wrapping_byte_add(self.to_part);
            }
            if number < N {
                let mut at = of_vector;
                unroll!(4, |i| {
                    f(number + i, at);
                    at = at.wrapping_byte_add(self.to_next);
                });
                of_vector = of_vector.wrapping_byte_add(self.to_vector);
            }
        });
    }
}

impl<'a, const ROWS: bool> Series<'a, ROWS> {
    /// The thread's series.
    ///
    /// # Safety
    /// The launch is `g.shape()`.
    #[inline(always)]
    pub(crate) unsafe fn of_thread(g: &'a SeriesGeometry) -> Self {
        let thread = thread::thread_idx_x();
        let inner = if ROWS { 1 } else { g.inner };
        let (number, of_block, place) = Self::place(g, thread);
        let (outer, position) = if !ROWS && !g.is_of_rows() {
            div_rem_u64(number, inner as u64)
        } else {
            (number, 0)
        };
        let before = number - of_block as u64;
        let together = g.together();
        let left = (g.series - before).min(g.block_series as u64) as u32;
        let is_there = |part: u32| of_block + part * together < left;
        let parts = match g.has_several() {
            true => u32::from(is_there(0)) + u32::from(is_there(1)),
            false if is_there(0) => PARTS as u32,
            false => 0,
        };
        let of = |units: u32| (units + (g.threads - 1) - place) >> g.threads.trailing_zeros();
        let start = Self::start(g, place);
        let first = outer * g.count as u64 * inner as u64 + position;
        Self {
            g,
            parts,
            count: if g.is_in_fours() {
                of(g.count / VECTOR) * VECTOR
            } else {
                of(g.count)
            },
            first: first + start as u64 * inner as u64,
        }
    }

    /// The series of a thread's first part: its index, and its number in the block; and the number of the
    /// thread among those of the series.
    #[inline(always)]
    unsafe fn place(g: &SeriesGeometry, thread: u32) -> (u64, u32, u32) {
        let (of_block, place) = if !ROWS && !g.is_of_rows() {
            let together = g.together();
            (thread & (together - 1), thread >> together.trailing_zeros())
        } else {
            (
                thread >> g.threads.trailing_zeros(),
                thread & (g.threads - 1),
            )
        };
        let before = thread::block_idx_x() as u64 * g.block_series as u64;
        (before + of_block as u64, of_block, place)
    }

    /// The index in its series of the first value of a thread.
    #[inline(always)]
    fn start(g: &SeriesGeometry, place: u32) -> u32 {
        if g.is_in_fours() {
            place * VECTOR
        } else {
            place
        }
    }

    /// Whether series are rows.
    #[inline(always)]
    fn is_of_rows(&self) -> bool {
        ROWS || self.g.is_of_rows()
    }

    /// The distance in the tensor of values that are `indices` apart in their series.
    #[inline(always)]
    fn distance(&self, indices: u32) -> u64 {
        match ROWS {
            true => indices as u64,
            false => opaque::wide_product(indices, self.g.inner),
        }
    }

    /// The number of values that the thread has from number `start` of a batch on; it may be negative. Those
    /// of another series are not counted.
    #[inline(always)]
    fn values_from(&self, batch: u32, start: u32) -> i32 {
        let before = if self.g.has_several() {
            start % PART as u32
        } else {
            batch * HELD as u32 + start
        };
        if start / (PART as u32) < self.parts {
            self.count as i32 - before as i32
        } else {
            0
        }
    }

    /// Whether the thread has value `i` of a batch.
    #[inline(always)]
    pub(crate) fn has(&self, batch: u32, i: usize) -> bool {
        let (part, i) = (i / PART * PART, i % PART);
        (i as i32) < self.values_from(batch, part as u32)
    }

    /// Whether the thread has all `N` values from number `start` of a batch on.
    #[inline(always)]
    pub(crate) fn has_all<const N: usize>(&self, batch: u32, start: u32) -> bool {
        let of_part = N.min(PART);
        let last = start + (N - of_part) as u32;
        self.values_from(batch, start) >= of_part as i32
            && self.values_from(batch, last) >= of_part as i32
    }

    /// The distance from one part to the next: in indices of its series, and in the tensor.
    #[inline(always)]
    fn steps(&self) -> (u32, u64) {
        let g = self.g;
        if g.has_several() {
            return (0, opaque::wide_product(g.together(), g.count));
        }
        let step = PART as u32 * g.threads;
        (step, self.distance(step))
    }

    /// The index in the tensor of the thread's first value of a batch.
    #[inline(always)]
    fn first_of(&self, batch: u32) -> u64 {
        // Otherwise the compiler would keep a pointer to the first value of each tensor.
        let half = |bits: u64| opaque::to_compiler(bits as u32) as u64;
        let first = half(self.first) | half(self.first >> 32) << 32;
        let (_, step) = self.steps();
        first + (batch * PARTS as u32) as u64 * step
    }

    /// Calls `f` with each of `N` values from number `start` of a batch on that the thread has, or with each
    /// vector of them: the number of the value behind `start`, a pointer to it, and whether it is a vector.
    /// They are all values, or some of one part. The first is at `index` in the tensor.
    #[inline(always)]
    unsafe fn each<T, const N: usize>(
        &self,
        tensor: *const T,
        index: u64,
        batch: u32,
        start: u32,
        mut f: impl FnMut(usize, *const T, bool),
    ) {
        const { assert!(N == HELD || N == MAPPED) };
        let g = self.g;
        let bytes = |indices: u32| self.distance(indices) as usize * size_of::<T>();
        let (_, step) = self.steps();
        let is_in = |number: usize| {
            let of_part = number / PART * PART;
            ((number - of_part) as i32) < self.values_from(batch, start + of_part as u32)
        };
        let walk = Walk {
            first: tensor.wrapping_add(index as usize),
            to_next: bytes(g.unit()),
            to_vector: bytes(VECTOR * g.threads),
            to_part: step as usize * size_of::<T>(),
        };
        // Opaque at each call: otherwise the compiler would duplicate loops for all cases.
        let is = |condition: bool| opaque::to_compiler(u32::from(condition)) != 0;
        if is(g.is_in_fours() && self.is_of_rows()) {
            walk.each::<N>(|number, at| {
                if number.is_multiple_of(VECTOR_ELEMENTS) && is_in(number) {
                    f(number, at, true);
                }
            });
        } else if is(self.has_all::<N>(batch, start)) {
            // Most threads need no comparison for each value.
            walk.each::<N>(|number, at| f(number, at, false));
        } else {
            walk.each::<N>(|number, at| {
                if is_in(number) {
                    f(number, at, false);
                }
            });
        }
    }

    /// Loads `N` values from number `start` of a batch on; `absent` for values that the thread does not have.
    ///
    /// # Safety
    /// `x` has a value for each one of all series, and is 16-byte aligned. Otherwise as [`each`](Self::each).
    #[inline(always)]
    unsafe fn some<T: Storage, const N: usize>(
        &self,
        x: *const T,
        index: u64,
        batch: u32,
        start: u32,
        absent: f32,
    ) -> [f32; N] {
        let mut values = [absent; N];
        self.each::<T, N>(x, index, batch, start, |number, at, is_vector| {
            if is_vector {
                let vector = Global::new(at, VECTOR_ELEMENTS).load_vec(0);
                let vector = T::to_f32_vector(vector);
                unroll!(4, |i| {
                    values[number + i] = vector[i];
                });
            } else {
                values[number] = Global::new(at, 1).load(0).to_f32();
            }
        });
        values
    }

    /// Loads the thread's values of a batch; `absent` for values that it does not have.
    ///
    /// # Safety
    /// `x` has a value for each one of all series, and is 16-byte aligned.
    #[inline(always)]
    pub(crate) unsafe fn load<T: Storage>(
        &self,
        x: *const T,
        batch: u32,
        absent: f32,
    ) -> [f32; HELD] {
        self.some::<T, HELD>(x, self.first_of(batch), batch, 0, absent)
    }

    /// Loads a number for each of some values from number `start` of a batch on, from an array with one for
    /// each index of the series; `absent` for values that the thread does not have.
    ///
    /// # Safety
    /// `numbers` has `g.count` elements. The values are of one part.
    #[inline(always)]
    pub(crate) unsafe fn of_indices<T: Storage>(
        &self,
        numbers: *const T,
        batch: u32,
        start: u32,
        absent: f32,
    ) -> [f32; MAPPED] {
        let g = self.g;
        // Addresses are computed here, and not in front of a list.
        let start = opaque::to_compiler(start);
        let array = Global::new(numbers, g.count as usize);
        let is_aligned = (numbers as usize).is_multiple_of(VECTOR_ELEMENTS * size_of::<T>());
        let mut of_indices = [absent; MAPPED];
        let before = if g.has_several() {
            start % PART as u32
        } else {
            batch * HELD as u32 + start
        };
        // Computed again, and not kept.
        let (.., place) = Self::place(g, opaque::to_compiler(thread::thread_idx_x()));
        let first = Self::start(g, place) + before * g.threads;
        let values = self.values_from(batch, start);
        if opaque::to_compiler(u32::from(g.is_in_fours() && is_aligned)) != 0 {
            unroll!(2, |v| {
                if ((v * VECTOR_ELEMENTS) as i32) < values {
                    let index = first + v as u32 * (VECTOR * g.threads);
                    let vector = array.load_vec_readonly(index as usize);
                    let vector = T::to_f32_vector(vector);
                    unroll!(4, |i| {
                        of_indices[v * VECTOR_ELEMENTS + i] = vector[i];
                    });
                }
            });
        } else {
            unroll!(8, |i| {
                if (i as i32) < values {
                    let of_vector = i as u32 % VECTOR * g.unit();
                    let index = first + i as u32 / VECTOR * (VECTOR * g.threads) + of_vector;
                    of_indices[i] = array.load_readonly(index as usize).to_f32();
                }
            });
        }
        of_indices
    }
}
