//! The list behind an operator, and its results.

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, opaque, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::pointwise::OperandList;
use launch_config::series::{HELD, MAPPED, PART};

use super::{Series, VECTOR};
use crate::parts::index::div_rem_u64;
use crate::parts::pointwise::{KeepsNothing, apply_with};
use crate::parts::store::GainAndShift;
use crate::parts::unroll::unroll;

/// The operands of a list. Pointers of absent operands may be null.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a, T> {
    pub(crate) list: &'a OperandList,
    pub(crate) residual: *const T,
    pub(crate) of_channels: GainAndShift,
}

impl<const ROWS: bool> Series<'_, ROWS> {
    /// Applies the list to the thread's values of a batch, and stores the results.
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
    ) {
        let (g, list) = (self.g, operands.list);
        let mut index = self.first_of(batch);
        if list.is_empty() {
            self.write(y, index, batch, 0, values);
            return;
        }
        let of = |start: usize| {
            let mut some = [0.0; MAPPED];
            unroll!(8, |i| {
                some[i] = values[start + i];
            });
            some
        };
        let to_vector = self.distance(VECTOR * g.threads);
        let (_, to_part) = self.steps();
        let mut now = of(0);
        let mut start = 0;
        // A few values at a time, because the list's code is unrolled for every value.
        loop {
            opaque::not_unrolled();
            if self.values_from(batch, start) > 0 {
                let mut added = [0.0; MAPPED];
                if opaque::to_compiler(u32::from(list.has_residual())) != 0 {
                    added = self.some::<T, MAPPED>(operands.residual, index, batch, start, 0.0);
                }
                let of_channels = || {
                    // Addresses are computed here, and not in front of the list.
                    let start = opaque::to_compiler(start);
                    let GainAndShift { gain, shift } = operands.of_channels;
                    let mut each = [[0.0; 2]; MAPPED];
                    if opaque::to_compiler(g.along_channels.code()) != 0 {
                        let gains = self.of_indices(gain, batch, start, 0.0);
                        let shifts = self.of_indices(shift, batch, start, 0.0);
                        unroll!(8, |i| {
                            each[i] = [gains[i], shifts[i]];
                        });
                    } else {
                        let several = if g.has_several() { g.together() } else { 0 };
                        // Computed again, and not kept.
                        let thread = opaque::to_compiler(thread::thread_idx_x());
                        let (number, ..) = Self::place(g, thread);
                        let number = number + (start / PART as u32 * several) as u64;
                        let (plane, _) = div_rem_u64(number, g.series_per_channel);
                        let (_, channel) = div_rem_u64(plane, g.channels as u64);
                        let channels = g.channels as usize;
                        each =
                            [operands.of_channels.of_channel(channel as usize, channels); MAPPED];
                    }
                    each
                };
                let results = apply_with::<T, MAPPED>(
                    list,
                    now,
                    Some(added),
                    Some(of_channels),
                    KeepsNothing,
                );
                self.write(y, index, batch, start, results);
            }
            start = opaque::to_compiler(start) + MAPPED as u32;
            index += 2 * to_vector;
            // By constants: an array with a variable index would be in local memory.
            match start {
                8 => now = of(8),
                16 => {
                    now = of(16);
                    index += to_part - 4 * to_vector;
                }
                24 => now = of(24),
                _ => return,
            }
        }
    }

    /// Writes `N` results from number `start` of a batch on: all, or some of one part.
    #[inline(always)]
    unsafe fn write<T: Storage, const N: usize>(
        &self,
        y: *mut T,
        index: u64,
        batch: u32,
        start: u32,
        results: [f32; N],
    ) {
        self.each::<T, N>(y, index, batch, start, |number, at, is_vector| {
            // Rounded as vectors in both cases, which is cheaper.
            let first = number / VECTOR_ELEMENTS * VECTOR_ELEMENTS;
            let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| results[first + i]);
            let vector = T::from_f32_vector([a, b, c, d]);
            if is_vector {
                GlobalMut::new(at.cast_mut(), VECTOR_ELEMENTS).store_vec(0, vector);
            } else {
                let value = vector[number % VECTOR_ELEMENTS];
                GlobalMut::new(at.cast_mut(), 1).store(0, value);
            }
        });
    }
}
