//! The list of pointwise functions for results without a norm.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{Storage, opaque, warp};
use launch_config::implicit_gemm::sm90::WRITTEN_WORDS;
use launch_config::{VECTOR_ELEMENTS, WARP_THREADS};

use super::super::format::Format;
use super::TileEpilogue;
use super::results::{HALF_SUMS, ROW_FILTERS, Results, elements, filter_shift, is_without_norm};
use super::shared_rows::Rows;
use super::shuffled::FILTER_WORDS;
use super::tile_epilogue::Stored;
use crate::parts::pointwise::{Keeps, Others, apply_with};
use crate::parts::unroll::unroll;

/// Values that a lane applies the list to at a time.
const LISTED: usize = 32;
const _: () = assert!(HALF_SUMS == 2 * LISTED && LISTED == 8 * VECTOR_ELEMENTS);

const VECTOR: u32 = VECTOR_ELEMENTS as u32;

/// No residual.
const NONE: Option<[f32; LISTED]> = None;

impl<F: Format, const SUMS: usize, E: TileEpilogue> Results<'_, F, SUMS, E> {
    /// Rounds the accumulators of a half of the tile to the storage type, and applies the list to them.
    #[inline(always)]
    pub(super) unsafe fn list(&self, sums: &mut [f32; SUMS]) {
        let without_norm = &self.output.without_norm;
        let (behind, first, lane) = (without_norm.behind, self.channel, self.lane);
        let shift = filter_shift::<E>(&self.g);
        let channels = self.g.conv.output_channels() >> shift;
        // Pairs of values belong to the lane's two filters in turn.
        let of_channels = move || {
            let of_row = |i: u32| {
                let channels = opaque::to_compiler(channels);
                let filter = first + opaque::to_compiler(lane) / 4 + ROW_FILTERS * i;
                let channel = filter >> shift;
                // Results of other filters are not written.
                behind.of_channel(channel.min(channels - 1) as usize, channels as usize)
            };
            let [a, b] = [of_row(0), of_row(1)];
            let mut of_values = [a; LISTED];
            unroll!(8, |pair| {
                [of_values[4 * pair + 2], of_values[4 * pair + 3]] = [b; 2];
            });
            of_values
        };
        // The list's code is written out for every value, so the loop takes one part of the values and then
        // the other, which change places.
        let mut part = 0;
        while part < 2 {
            opaque::not_unrolled();
            let mut values = [0.0; LISTED];
            unroll!(16, |pair| {
                let rounded = F::Stored::from_f32_pair([sums[2 * pair], sums[2 * pair + 1]]);
                [values[2 * pair], values[2 * pair + 1]] = F::Stored::to_f32_pair(rounded);
            });
            let (list, of_channels) = (without_norm.list, Some(of_channels));
            let keeps = InRows(self.rows.0.cast().slice(lane, SLOTS));
            let values = apply_with::<F::Accuracy, LISTED>(list, values, NONE, of_channels, keeps);
            unroll!(32, |i| {
                sums[i] = sums[LISTED + i];
                sums[LISTED + i] = values[i];
            });
            part = opaque::to_compiler(part + 1);
        }
    }
}

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS, Stored> {
    /// Applies the list to the staged tile in shared memory, whose pixels are those from `tile_pixel` on.
    /// Each lane takes half of the pixels of a filter.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier that follows the stores of the tile. The
    /// residual, if the list has one, has an element for each element of the output, and is 16-byte aligned;
    /// rows of the output, and of the tile, are then whole vectors.
    #[inline(always)]
    pub(super) unsafe fn list_staged(&self, tile_pixel: u32) {
        let without_norm = &self.output.without_norm;
        if !is_without_norm::<Stored>(&self.g) || without_norm.list.is_empty() {
            return;
        }
        let lane = opaque::to_compiler(self.lane);
        let (filter, shift) = (lane / 2, self.shuffle().shift);
        let channels = self.g.conv.output_channels() >> shift;
        // Results of other filters are not written.
        let channel = ((self.channel + filter) >> shift).min(channels - 1);
        let behind = without_norm.behind;
        let of_channels = move || [behind.of_channel(channel as usize, channels as usize); LISTED];
        // The filters of a channel share a row.
        let row = match self.is_shuffled() {
            true => (FILTER_WORDS * Rows::<F::Stored>::OF_WORD) << shift,
            false => Rows::<F::Stored>::PITCH,
        };
        let of_row = (filter & ((1 << shift) - 1)) * Rows::<F::Stored>::PIXELS;
        // The lanes of a row take its vectors in turn, so that accesses have no bank conflicts.
        let mut column = of_row + lane % 2 * VECTOR;
        let end = column + Rows::<F::Stored>::PIXELS;
        while column < end {
            opaque::not_unrolled();
            let first = (filter >> shift) * row + column;
            let own = Own(self.rows.0.slice(first, self.rows.0.len() - first));
            let values = if without_norm.has_residual() {
                own.exchanged(self.residuals(tile_pixel, filter, column))
            } else {
                own.load()
            };
            let keeps = KeepsOwn {
                own,
                kept: [0.0; LISTED],
            };
            let (list, of_channels) = (without_norm.list, Some(of_channels));
            let values =
                apply_with::<F::Accuracy, LISTED>(list, values, Some(own), of_channels, keeps);
            own.store(values);
            column = opaque::to_compiler(column + 2 * LISTED as u32);
        }
        warp::sync_warp(warp::ALL_LANES);
    }

    /// Loads the residuals of the values from column `column` on that a lane has in the row of the warp's
    /// filter `filter`; 0 beyond the output.
    #[inline(always)]
    unsafe fn residuals(&self, tile_pixel: u32, filter: u32, column: u32) -> [f32; LISTED] {
        let mut residuals = [0.0; LISTED];
        let without_norm = &self.output.without_norm;
        if filter >= self.filters {
            return residuals;
        }
        // Places are computed once more as rows are written; kept ones would take registers during the list.
        let place = &self.place.anew();
        let this = Results { place, ..*self };
        let residual = Global::new(without_norm.residual, elements::<Stored>(&self.g));
        let mut load = |v: usize, at: usize| {
            let vector = F::Stored::to_f32_vector(residual.load_vec(at));
            unroll!(4, |i| {
                residuals[4 * v + i] = vector[i];
            });
        };
        if self.is_shuffled() {
            let shuffle = this.shuffle();
            let plane = (filter >> shuffle.shift) as usize * shuffle.plane as usize;
            let origin = this.origin(&shuffle);
            unroll!(8, |v| {
                let column = column + 2 * VECTOR * v as u32;
                if let Some(at) = this.place_of(&shuffle, &origin, tile_pixel, column) {
                    load(v, plane + at);
                }
            });
        } else {
            let plane = this.plane(filter) * self.g.conv.output_pixels() as usize;
            let (limits, of_tile) = (this.limits(), this.first_position());
            unroll!(8, |v| {
                let pixel = tile_pixel + column + 2 * VECTOR * v as u32;
                if let Some(at) = this.position(limits, of_tile, pixel) {
                    load(v, plane + at as usize);
                }
            });
        }
        residuals
    }
}

/// A lane's values in a row of the staged tile: every other vector, since two lanes share the row.
#[derive(Clone, Copy)]
struct Own<T>(Shared<T>);

impl<T: Storage> Own<T> {
    #[inline(always)]
    unsafe fn vector(&self, v: usize) -> [f32; VECTOR_ELEMENTS] {
        T::to_f32_vector(self.0.load_vec(2 * VECTOR * v as u32))
    }

    #[inline(always)]
    unsafe fn load(&self) -> [f32; LISTED] {
        let mut values = [0.0; LISTED];
        unroll!(8, |v| {
            let vector = self.vector(v);
            unroll!(4, |i| {
                values[4 * v + i] = vector[i];
            });
        });
        values
    }

    /// Returns the values, whose places get the residuals.
    #[inline(always)]
    unsafe fn exchanged(&self, residuals: [f32; LISTED]) -> [f32; LISTED] {
        let mut values = [0.0; LISTED];
        unroll!(8, |v| {
            let vector = self.vector(v);
            self.store_vector(v, &residuals);
            unroll!(4, |i| {
                values[4 * v + i] = vector[i];
            });
        });
        values
    }

    #[inline(always)]
    unsafe fn store(&self, values: [f32; LISTED]) {
        unroll!(8, |v| {
            self.store_vector(v, &values);
        });
    }

    #[inline(always)]
    unsafe fn store_vector(&self, v: usize, values: &[f32; LISTED]) {
        let [a, b, c, d] = [4 * v, 4 * v + 1, 4 * v + 2, 4 * v + 3];
        let vector = T::from_f32_vector([values[a], values[b], values[c], values[d]]);
        self.0.store_vec(2 * VECTOR * v as u32, vector);
    }
}

/// Residuals in the places of the values that the list is applied to.
impl<T: Storage> Others<LISTED> for Own<T> {
    #[inline(always)]
    fn with_values(&self, mut values: [f32; LISTED], f: impl Fn(f32, f32) -> f32) -> [f32; LISTED] {
        unroll!(8, |v| {
            // Loaded one vector after the other, to need few registers. SAFETY: the lane's own values.
            let others = unsafe { self.vector(v) };
            unroll!(4, |i| {
                values[4 * v + i] = f(values[4 * v + i], others[i]);
            });
        });
        values
    }
}

/// Keeps f32 values in the staged tile, in the place of the values that the list is applied to. There are no
/// registers for them beside the accumulators. For 16-bit types there are: they have one staged tile.
struct KeepsOwn<T> {
    own: Own<T>,
    kept: [f32; LISTED],
}

impl<T: Storage> Keeps<LISTED> for KeepsOwn<T> {
    #[inline(always)]
    fn keep(&mut self, values: [f32; LISTED]) {
        if size_of::<T>() == size_of::<f32>() {
            // SAFETY: the lane's own values, which are in registers.
            unsafe { self.own.store(values) };
        } else {
            self.kept = values;
        }
    }

    #[inline(always)]
    fn with_kept(&self, values: [f32; LISTED], f: impl Fn(f32, f32) -> f32) -> [f32; LISTED] {
        match size_of::<T>() == size_of::<f32>() {
            true => self.own.with_values(values, f),
            false => self.kept.with_values(values, f),
        }
    }
}

/// Words of shared memory from a lane's first kept value to its last.
const SLOTS: u32 = (LISTED as u32 - 1) * WARP_THREADS + 1;
const _: () = assert!(SLOTS + WARP_THREADS <= WRITTEN_WORDS);

/// Keeps a lane's values in the warp's rows in shared memory, which are free while a list is applied. Beside
/// the accumulators of a whole tile there are no registers for them.
struct InRows(Shared<f32>);

impl Keeps<LISTED> for InRows {
    #[inline(always)]
    fn keep(&mut self, values: [f32; LISTED]) {
        // SAFETY: all lanes are at the same step of the list. No lane still reads the rows of the previous
        // staged tile, and each lane has words of its own.
        unsafe {
            warp::sync_warp(warp::ALL_LANES);
            unroll!(32, |i| {
                self.0.store(i as u32 * WARP_THREADS, values[i]);
            });
        }
    }

    #[inline(always)]
    fn with_kept(&self, mut values: [f32; LISTED], f: impl Fn(f32, f32) -> f32) -> [f32; LISTED] {
        unroll!(32, |i| {
            // SAFETY: the lane's own words.
            values[i] = f(values[i], unsafe { self.0.load(i as u32 * WARP_THREADS) });
        });
        values
    }
}
