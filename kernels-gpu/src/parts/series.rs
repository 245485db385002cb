//! The values along an axis (a series), which threads of a block share and hold in registers.

use core::mem::size_of;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::warp::{self, ALL_LANES};
use cuda_std::{Storage, opaque, thread};
use launch_config::pointwise::OperandList;
use launch_config::series::{HELD, MAPPED, SeriesGeometry};
use launch_config::{VECTOR_ELEMENTS, WARP_THREADS};

use crate::parts::index::{div_rem, div_rem_u64};
use crate::parts::pointwise::{KeepsNothing, apply_with};
use crate::parts::store::GainAndShift;
use crate::parts::unroll::unroll;

/// Vectors of a thread.
const VECTORS: u32 = HELD as u32 / VECTOR;
const _: () = assert!(HELD == 4 * MAPPED && MAPPED == 2 * VECTOR_ELEMENTS);

const VECTOR: u32 = VECTOR_ELEMENTS as u32;

/// A thread's part of a series.
#[derive(Clone, Copy)]
pub(crate) struct Series<'a> {
    pub(crate) g: &'a SeriesGeometry,
    /// The index of the series. Threads without a series get the last one and store nothing.
    number: u64,
    is_stored: bool,
    /// The index of the series' first value in the tensor.
    first: u64,
    /// The index in the series of the thread's first value, and the stride of its first four values. The
    /// threads of a series take four values in turn, or one.
    start: u32,
    unit: u32,
    /// Whether the thread's values are four consecutive ones at a time.
    in_fours: bool,
}

/// How the values of a thread lie in memory.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Four consecutive values are a vector.
    Vectors,
    /// Four consecutive values of a strided series at a time.
    Fours,
    /// Single values, of which the threads of a series have every so many.
    Singles,
}

/// The operands of a list. Pointers of absent operands may be null.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a, T> {
    pub(crate) list: &'a OperandList,
    pub(crate) residual: *const T,
    pub(crate) of_channels: GainAndShift,
}

impl<'a> Series<'a> {
    /// The thread's series.
    ///
    /// # Safety
    /// The launch is `g.shape()`.
    #[inline(always)]
    pub(crate) unsafe fn of_thread(g: &'a SeriesGeometry) -> Self {
        let thread = thread::thread_idx_x();
        let (of_block, place) = if g.is_of_rows() {
            div_rem(thread, g.threads)
        } else {
            let (place, of_block) = div_rem(thread, g.block_series);
            (of_block, place)
        };
        let wanted = thread::block_idx_x() as u64 * g.block_series as u64 + of_block as u64;
        let number = wanted.min(g.series - 1);
        let (outer, position) = if g.is_of_rows() {
            (number, 0)
        } else {
            div_rem_u64(number, g.inner as u64)
        };
        let in_fours = g.count.is_multiple_of(VECTOR);
        Self {
            g,
            number,
            is_stored: wanted < g.series,
            first: outer * g.count as u64 * g.inner as u64 + position,
            start: if in_fours { place * VECTOR } else { place },
            unit: if in_fours { 1 } else { g.threads },
            in_fours,
        }
    }

    /// The index in the series of the thread's value `i` of a batch. It may be past the end.
    #[inline(always)]
    fn index(&self, batch: u32, i: usize) -> u32 {
        let i = i as u32;
        let vector = batch * VECTORS + i / VECTOR;
        self.start + vector * (VECTOR * self.g.threads) + i % VECTOR * self.unit
    }

    /// Whether the series has the thread's value `i` of a batch.
    #[inline(always)]
    pub(crate) fn has(&self, batch: u32, i: usize) -> bool {
        self.index(batch, i) < self.g.count
    }

    /// How the thread's values lie in memory. Opaque at each call: otherwise the compiler would duplicate the
    /// loops for all cases.
    #[inline(always)]
    fn layout(&self) -> Layout {
        match opaque::to_compiler(u32::from(self.in_fours)) != 0 {
            true if self.g.is_of_rows() => Layout::Vectors,
            true => Layout::Fours,
            false => Layout::Singles,
        }
    }

    /// A pointer to value `index` of the series in the tensor at `tensor`. It may be past the end.
    #[inline(always)]
    fn pointer<T>(&self, tensor: *const T, index: u32) -> *const T {
        let index = opaque::wide_product(index, self.g.inner);
        tensor.wrapping_add((self.first + index) as usize)
    }

    /// Bytes from the values at one index to those `indices` later.
    #[inline(always)]
    fn bytes<T>(&self, indices: u32) -> usize {
        opaque::wide_product(indices, self.g.inner) as usize * size_of::<T>()
    }

    /// Calls `f` with each of the `N` values from number `start` of a batch on that the series has, or with
    /// each vector of them: the number of the value behind `start`, a pointer to it, and whether it is a
    /// vector. `N` and `start` are multiples of a vector's elements.
    #[inline(always)]
    unsafe fn each<T, const N: usize>(
        &self,
        tensor: *const T,
        batch: u32,
        start: usize,
        mut f: impl FnMut(usize, *const T, bool),
    ) {
        let layout = self.layout();
        let mut at = self.pointer(tensor, self.index(batch, start));
        if layout == Layout::Singles {
            let step = self.bytes::<T>(self.g.threads);
            unroll!(8, |v| {
                unroll!(4, |i| {
                    let number = v * VECTOR_ELEMENTS + i;
                    if number < N && self.has(batch, start + number) {
                        f(number, at, false);
                    }
                    at = at.wrapping_byte_add(step);
                });
            });
            return;
        }
        let step = self.bytes::<T>(VECTOR * self.g.threads);
        if layout == Layout::Vectors {
            unroll!(8, |v| {
                let first = v * VECTOR_ELEMENTS;
                if first < N && self.has(batch, start + first) {
                    f(first, at, true);
                }
                at = at.wrapping_byte_add(step);
            });
            return;
        }
        let to_next = self.bytes::<T>(1);
        unroll!(8, |v| {
            let first = v * VECTOR_ELEMENTS;
            if first < N && self.has(batch, start + first) {
                let mut each = at;
                unroll!(4, |i| {
                    f(first + i, each, false);
                    each = each.wrapping_byte_add(to_next);
                });
            }
            at = at.wrapping_byte_add(step);
        });
    }

    /// Loads the thread's values of a batch, from number `start` on; `absent` for values past the end of the
    /// series.
    ///
    /// # Safety
    /// `x` has a value for each one of all series, and is 16-byte aligned. `N` and `start` are multiples of
    /// a vector's elements.
    #[inline(always)]
    unsafe fn part<T: Storage, const N: usize>(
        &self,
        x: *const T,
        batch: u32,
        start: usize,
        absent: f32,
    ) -> [f32; N] {
        let mut values = [absent; N];
        self.each::<T, N>(x, batch, start, |number, at, is_vector| {
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

    /// Loads all of the thread's values of a batch; `absent` for values past the end of the series.
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
        self.part::<T, HELD>(x, batch, 0, absent)
    }

    /// Loads `N` values from number `start` on, for the thread's indices of a batch, from an array with one
    /// value for each index of the series; `absent` past its end.
    ///
    /// # Safety
    /// `values` has `g.count` elements. `N` and `start` are multiples of a vector's elements.
    #[inline(always)]
    pub(crate) unsafe fn of_indices<T: Storage, const N: usize>(
        &self,
        values: *const T,
        batch: u32,
        start: usize,
        absent: f32,
    ) -> [f32; N] {
        let array = Global::new(values, self.g.count as usize);
        let is_aligned = (values as usize).is_multiple_of(VECTOR_ELEMENTS * size_of::<T>());
        let mut of_indices = [absent; N];
        if opaque::to_compiler(u32::from(self.in_fours && is_aligned)) != 0 {
            unroll!(2, |v| {
                let first = v * VECTOR_ELEMENTS;
                let index = self.index(batch, start + first);
                if first < N && index < self.g.count {
                    let vector = array.load_vec_readonly(index as usize);
                    let vector = T::to_f32_vector(vector);
                    unroll!(4, |i| {
                        of_indices[first + i] = vector[i];
                    });
                }
            });
        } else {
            unroll!(8, |i| {
                let index = self.index(batch, start + i);
                if i < N && index < self.g.count {
                    of_indices[i] = array.load_readonly(index as usize).to_f32();
                }
            });
        }
        of_indices
    }

    /// Reduces one number of each thread of the series by `combine`. All of these threads get the same
    /// result.
    ///
    /// # Safety
    /// All threads of the block call it together. `scratch` has an element for each of them, which nothing
    /// else uses.
    #[inline(always)]
    pub(crate) unsafe fn together(
        &self,
        own: f32,
        scratch: Shared<f32>,
        combine: impl Fn(f32, f32) -> f32,
    ) -> f32 {
        let g = self.g;
        let mut all = own;
        if g.is_of_rows() {
            let mut distance = g.threads.min(WARP_THREADS) / 2;
            while distance > 0 {
                let (other, _) = warp::warp_shuffle_xor(ALL_LANES, all, distance, WARP_THREADS);
                all = combine(all, other);
                distance /= 2;
            }
        }
        // First element, stride and count of the series' numbers in shared memory.
        let (first, step, count) = if g.is_of_rows() {
            (0, WARP_THREADS, g.threads / WARP_THREADS)
        } else {
            let lane = thread::thread_idx_x() & (g.block_series - 1);
            (lane, g.block_series, g.threads)
        };
        // Uniform over the block, so either all threads reach the barrier or none.
        if count > 1 {
            scratch.store(thread::thread_idx_x(), all);
            thread::sync_threads();
            // Combined by halves, like lanes. `count` is 2, 4 or 8.
            let of = |at: u32| scratch.load(first + at * step);
            let half = |at: u32| combine(of(at), of(at + count / 2));
            let quarter = |at: u32| match count {
                2 => half(at),
                _ => combine(half(at), half(at + count / 4)),
            };
            all = match count {
                8 => combine(quarter(0), quarter(1)),
                _ => quarter(0),
            };
        }
        all
    }

    /// Applies `map` and then the list to the thread's values of a batch, and stores the results. `map` takes
    /// some of the values and the number of the first.
    ///
    /// # Safety
    /// `y` and the residual, if the list has it, have a value for each one of all series, and are 16-byte
    /// aligned. Gain and shift have a value for each channel, if the list has them.
    #[inline(always)]
    pub(crate) unsafe fn store<T: Storage>(
        &self,
        y: *mut T,
        batch: u32,
        values: [f32; HELD],
        operands: Operands<'_, T>,
        map: impl Fn(usize, [f32; MAPPED]) -> [f32; MAPPED],
    ) {
        let (g, list) = (self.g, operands.list);
        if !self.is_stored {
            return;
        }
        if list.is_empty() {
            unroll!(4, |part| {
                let start = part * MAPPED;
                if self.has(batch, start) {
                    self.write(y, batch, start, map(start, part_of(values, start)));
                }
            });
            return;
        }
        let mut rest = values;
        let mut start = 0;
        // A few values at a time, because the list's code is unrolled for every value.
        while start < HELD && self.has(batch, start) {
            opaque::not_unrolled();
            let mapped = map(start, part_of(rest, 0));
            let mut added = [0.0; MAPPED];
            if opaque::to_compiler(u32::from(list.has_residual())) != 0 {
                added = self.part::<T, MAPPED>(operands.residual, batch, start, 0.0);
            }
            let of_channels = || {
                let GainAndShift { gain, shift } = operands.of_channels;
                if opaque::to_compiler(g.along_channels.code()) != 0 {
                    let of_indices =
                        |values| self.of_indices::<f32, MAPPED>(values, batch, start, 0.0);
                    let (gains, shifts) = (of_indices(gain), of_indices(shift));
                    let mut each = [[0.0; 2]; MAPPED];
                    unroll!(8, |i| {
                        each[i] = [gains[i], shifts[i]];
                    });
                    each
                } else {
                    let (plane, _) = div_rem_u64(self.number, g.series_per_channel);
                    let (_, channel) = div_rem_u64(plane, g.channels as u64);
                    let channels = g.channels as usize;
                    [operands.of_channels.of_channel(channel as usize, channels); MAPPED]
                }
            };
            let results =
                apply_with::<T, MAPPED>(list, mapped, Some(added), Some(of_channels), KeepsNothing);
            self.write(y, batch, start, results);
            // Rotated by constants: an array with a variable index would be in local memory.
            let taken = rest;
            unroll!(16, |i| {
                rest[i] = taken[i + MAPPED];
            });
            unroll!(8, |i| {
                rest[16 + i] = taken[16 + i + MAPPED];
            });
            start = opaque::to_compiler(start as u32) as usize + MAPPED;
        }
    }

    /// Writes results of a batch from number `start` on.
    #[inline(always)]
    unsafe fn write<T: Storage>(
        &self,
        y: *mut T,
        batch: u32,
        start: usize,
        results: [f32; MAPPED],
    ) {
        let of = |first: usize| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| results[first + i]);
            T::from_f32_vector([a, b, c, d])
        };
        let stored = [of(0), of(VECTOR_ELEMENTS)];
        self.each::<T, MAPPED>(y, batch, start, |number, at, is_vector| {
            let vector = stored[number / VECTOR_ELEMENTS];
            if is_vector {
                GlobalMut::new(at.cast_mut(), VECTOR_ELEMENTS).store_vec(0, vector);
            } else {
                let value = vector[number % VECTOR_ELEMENTS];
                GlobalMut::new(at.cast_mut(), 1).store(0, value);
            }
        });
    }
}

/// The values from number `start` on.
#[inline(always)]
fn part_of(values: [f32; HELD], start: usize) -> [f32; MAPPED] {
    let mut part = [0.0; MAPPED];
    unroll!(8, |i| {
        part[i] = values[start + i];
    });
    part
}

/// The sum of a thread's values.
#[inline(always)]
pub(crate) fn sum_of(values: [f32; HELD]) -> f32 {
    let mut sums = [0.0; 2];
    unroll!(16, |i| {
        sums[0] += values[i];
        sums[1] += values[i + 16];
    });
    sums[0] + sums[1]
}
