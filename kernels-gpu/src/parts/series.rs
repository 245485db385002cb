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
    /// Whether four consecutive values are a vector in memory.
    in_vectors: bool,
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
            in_vectors: g.is_of_rows() && in_fours,
        }
    }

    /// Elements of the tensor.
    #[inline(always)]
    pub(crate) fn elements(&self) -> usize {
        (self.g.series * self.g.count as u64) as usize
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

    /// Whether four values are a vector in memory. Opaque at each call: otherwise the compiler would
    /// duplicate the loops for both cases.
    #[inline(always)]
    fn in_vectors(&self) -> bool {
        opaque::to_compiler(u32::from(self.in_vectors)) != 0
    }

    /// The index in the tensor of value `index` of the series.
    #[inline(always)]
    fn at(&self, index: u32) -> usize {
        (self.first + index as u64 * self.g.inner as u64) as usize
    }

    /// Loads the thread's values of a batch, from number `start` on; `absent` for values past the end of the
    /// series.
    ///
    /// # Safety
    /// `x` has [`elements`](Self::elements) elements and is 16-byte aligned. `N` and `start` are multiples of
    /// a vector's elements.
    #[inline(always)]
    unsafe fn part<T: Storage, const N: usize>(
        &self,
        x: Global<T>,
        batch: u32,
        start: usize,
        absent: f32,
    ) -> [f32; N] {
        let mut values = [absent; N];
        if self.in_vectors() {
            unroll!(8, |v| {
                let first = v * VECTOR_ELEMENTS;
                let index = self.index(batch, start + first);
                if first < N && index < self.g.count {
                    let vector = T::to_f32_vector(x.load_vec(self.at(index)));
                    unroll!(4, |i| {
                        values[first + i] = vector[i];
                    });
                }
            });
        } else {
            unroll!(8, |v| {
                unroll!(4, |i| {
                    let of_part = v * VECTOR_ELEMENTS + i;
                    let index = self.index(batch, start + of_part);
                    if of_part < N && index < self.g.count {
                        values[of_part] = x.load(self.at(index)).to_f32();
                    }
                });
            });
        }
        values
    }

    /// Loads all of the thread's values of a batch; `absent` for values past the end of the series.
    ///
    /// # Safety
    /// `x` has [`elements`](Self::elements) elements and is 16-byte aligned.
    #[inline(always)]
    pub(crate) unsafe fn load<T: Storage>(
        &self,
        x: Global<T>,
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
        if self.in_vectors() && is_aligned {
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
    /// All threads of the block call it together. `meeting` has an element for each of them, which nothing
    /// else uses.
    #[inline(always)]
    pub(crate) unsafe fn together(
        &self,
        own: f32,
        meeting: Shared<f32>,
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
            meeting.store(thread::thread_idx_x(), all);
            thread::sync_threads();
            // Combined by halves, like lanes. `count` is 2, 4 or 8.
            let of = |at: u32| meeting.load(first + at * step);
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
    /// `y` and the residual, if the list has it, have [`elements`](Self::elements) elements and are 16-byte
    /// aligned. Gain and shift have a value for each channel, if the list has them.
    #[inline(always)]
    pub(crate) unsafe fn store<T: Storage>(
        &self,
        y: GlobalMut<T>,
        batch: u32,
        values: [f32; HELD],
        operands: Operands<'_, T>,
        map: impl Fn(usize, [f32; MAPPED]) -> [f32; MAPPED],
    ) {
        let (g, list) = (self.g, operands.list);
        let mut rest = values;
        let mut start = 0;
        // A few values at a time, because the list's code is unrolled for every value.
        while start < HELD && self.is_stored && self.has(batch, start) {
            opaque::not_unrolled();
            let mut some = [0.0; MAPPED];
            unroll!(8, |i| {
                some[i] = rest[i];
            });
            let mapped = map(start, some);
            let mut added = [0.0; MAPPED];
            if opaque::to_compiler(u32::from(list.has_residual())) != 0 {
                let residual = Global::new(operands.residual, self.elements());
                added = self.part::<T, MAPPED>(residual, batch, start, 0.0);
            }
            let of_channels = || {
                let of_channel = |channel: u32| {
                    operands
                        .of_channels
                        .of_channel(channel as usize, g.channels as usize)
                };
                if opaque::to_compiler(g.along_channels.code()) != 0 {
                    let last = g.count - 1;
                    let mut each = [[0.0; 2]; MAPPED];
                    unroll!(8, |i| {
                        each[i] = of_channel(self.index(batch, start + i).min(last));
                    });
                    each
                } else {
                    let (plane, _) = div_rem_u64(self.number, g.series_per_channel);
                    let (_, channel) = div_rem_u64(plane, g.channels as u64);
                    [of_channel(channel as u32); MAPPED]
                }
            };
            let mut results = mapped;
            if !list.is_empty() {
                results = apply_with::<T, MAPPED>(
                    list,
                    mapped,
                    Some(added),
                    Some(of_channels),
                    KeepsNothing,
                );
            }
            let in_vectors = self.in_vectors();
            unroll!(2, |v| {
                let first = v * VECTOR_ELEMENTS;
                let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| results[first + i]);
                let stored = T::from_f32_vector([a, b, c, d]);
                let index = self.index(batch, start + first);
                if in_vectors && index < g.count {
                    y.store_vec(self.at(index), stored);
                } else if !in_vectors {
                    unroll!(4, |i| {
                        let index = self.index(batch, start + first + i);
                        if index < g.count {
                            y.store(self.at(index), stored[i]);
                        }
                    });
                }
            });
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
