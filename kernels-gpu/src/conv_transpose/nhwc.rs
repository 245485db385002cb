//! The interleave kernel for channels-last tensors.
//!
//! A thread has one vector of channels in pixels of one phase, and computes class, phase and first row of
//! these once. From pixel to pixel it adds steps that `launch_config` precomputes.
//!
//! ```text
//! class, phase, first position of the thread's rows and columns     # by reciprocals, once
//! for each row, for each column of the thread:
//!     load the next pixel's vector; y = list(epilogue(this one's))
//! ```

use core::mem::transmute_copy;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::conv_transpose::{BLOCK_THREADS, InterleaveGeometry, NHWC_MIN_BLOCKS};
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;

use super::epilogue::OutputEpilogue;
use super::{Results, position};
use crate::parts::index::{div_rem, div_rem_u64};
use crate::parts::store::{GainAndShift, Store, StoreEpilogue};
use crate::parts::unroll::unroll;

/// The values of an item: up to two vectors. An item of a 32-bit type has one vector at most.
type Item<T> = [[T; VECTOR_ELEMENTS]; 2];

/// A block writes vectors of channels of a tile of rows and columns of some slices of the NHWC output `y`,
/// from the classes' NHWC results through an epilogue and a list.
///
/// *Launch*: `g.shape(Layout::Nhwc)`, of a geometry for elements of this type. *Mapping*: neighbouring
/// threads write neighbouring vectors of 16 bytes, or of 8 or single elements where groups are not whole
/// vectors, then neighbouring columns. A thread writes rows and columns of one phase, a multiple of the
/// stride apart. *Barriers*: none. *Traffic*: each output is written once; each result and each element of
/// the residual is read once.
///
/// # Safety
/// As for [`fn@super::conv_transpose_interleave`], with results, `residual` and `y` in channels-last layout
/// and 16-byte aligned.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = NHWC_MIN_BLOCKS)]
pub unsafe fn conv_transpose_interleave_nhwc<T: Storage>(
    result_0: *const T,
    result_1: *const T,
    result_2: *const T,
    result_3: *const T,
    result_4: *const T,
    result_5: *const T,
    result_6: *const T,
    result_7: *const T,
    bias: *const T,
    gain: *const f32,
    shift: *const f32,
    gain_behind: *const f32,
    shift_behind: *const f32,
    residual: *const T,
    y: *mut T,
    g: &InterleaveGeometry,
    epilogue: Epilogue,
    list: &OperandList,
) {
    let results = Results {
        classes: [
            result_0, result_1, result_2, result_3, result_4, result_5, result_6, result_7,
        ],
        bias,
    };
    let epilogue = StoreEpilogue {
        of_channels: GainAndShift { gain, shift },
        epilogue,
    };
    let store = Store {
        epilogue,
        list,
        residual,
    };
    let behind = GainAndShift {
        gain: gain_behind,
        shift: shift_behind,
    };
    let epilogue = OutputEpilogue::new(store, behind, g);
    let elements = g.elements() as usize;
    let output = Output {
        values: GlobalMut::new(y, elements),
        words: GlobalMut::new(y.cast(), words_of::<T>(elements)),
    };

    let (tile, of_rows) = (&g.nhwc, &g.nhwc.rows);
    let (rest, of_channels) = div_rem(thread::block_idx_x(), tile.channel_blocks);
    let (rest, column_run) = div_rem(rest, of_rows.columns.runs);
    let (rest, column_tile) = div_rem(rest, of_rows.columns.tiles);
    let (rest, row_run) = div_rem(rest, of_rows.rows.runs);
    let (slices, row_tile) = div_rem(rest, of_rows.rows.tiles);
    let (lane, item) = div_rem(thread::thread_idx_x(), tile.block_items);
    let item = of_channels * tile.block_items + item;
    let (rest, of_columns) = of_rows.columns.divide(lane);
    let (of_slice, of_row) = of_rows.rows.divide(rest);
    let number = u64::from(slices) * u64::from(tile.slices()) + u64::from(of_slice);
    // Counted over the slices of all samples.
    if of_slice >= tile.slices() || item >= tile.items || number >= g.n * u64::from(g.slices) {
        return;
    }
    let (sample, z) = div_rem_u64(number, u64::from(g.slices));
    let rows = of_rows.rows;
    let (first_row, rows_end) = rows.of_thread(row_tile, row_run, of_row, g.rows.divisor);
    let columns = of_rows.columns;
    let (first_column, columns_end) =
        columns.of_thread(column_tile, column_run, of_columns, g.columns.divisor);
    if first_column >= columns_end || first_row >= rows_end {
        return;
    }
    let k = item * tile.item_channels;
    let phase = Phase::of(
        &results,
        g,
        (sample, z as u32, k),
        [first_row, first_column],
    );
    // The next pixel, by columns and then by rows: its place in the output's slice, and in the class's slice.
    let of_y = number * u64::from(g.rows.divisor * g.columns.divisor);
    let (mut p, mut q) = (first_row, first_column);
    let [mut at_row, mut at] = phase.at;
    let load = |at_row: u32, at: u32, is_there: bool| {
        if is_there && at_row < phase.extents[0] && at < phase.extents[1] {
            let pixel = u64::from(at_row * phase.extents[1] + at);
            let place = phase.first + pixel * phase.channels;
            phase.class.item(place as usize, tile.item_channels)
        } else {
            let mut values = [[T::from_f32(0.0); VECTOR_ELEMENTS]; 2];
            if is_there {
                unroll!(2, |half| {
                    unroll!(4, |i| {
                        let of_item = (half * VECTOR_ELEMENTS + i) as u32;
                        if of_item < tile.item_channels {
                            values[half][i] = results.bias(g, k + of_item);
                        }
                    });
                });
            }
            values
        }
    };
    let mut next = load(at_row, at, true);
    while p < rows_end {
        opaque::not_unrolled();
        let values = next;
        let pixel = of_y + u64::from(p * g.columns.divisor + q);
        q += columns.step;
        at = at.wrapping_add(columns.position_step);
        if q >= columns_end {
            (q, at) = (first_column, phase.at[1]);
            p += rows.step;
            at_row = at_row.wrapping_add(rows.position_step);
        }
        next = load(at_row, at, p < rows_end);
        let place = (pixel * u64::from(g.channels) + u64::from(k)) as usize;
        write(&epilogue, output, values, (place, k), tile.item_channels);
    }
}

/// Whether an item is two vectors of together 16 bytes.
#[inline(always)]
const fn is_pair<T>(channels: u32) -> bool {
    size_of::<T>() == 2 && channels == 2 * VECTOR_ELEMENTS as u32
}

/// The number of whole words in `elements` elements.
#[inline(always)]
const fn words_of<T>(elements: usize) -> usize {
    elements * size_of::<T>() / 4
}

/// A tensor of results, addressable by elements and by words.
#[derive(Clone, Copy)]
struct Input<T> {
    values: Global<T>,
    words: Global<u32>,
}

/// The output tensor, addressable by elements and by words.
#[derive(Clone, Copy)]
struct Output<T> {
    values: GlobalMut<T>,
    words: GlobalMut<u32>,
}

impl<T: Storage> Input<T> {
    /// # Safety
    /// As for [`Global::new`].
    #[inline(always)]
    unsafe fn new(tensor: *const T, elements: usize) -> Self {
        Self {
            values: Global::new(tensor, elements),
            words: Global::new(tensor.cast(), words_of::<T>(elements)),
        }
    }

    /// Loads the `channels` values of the item whose first value is at `at`.
    ///
    /// # Safety
    /// The tensor has these values and is 16-byte aligned. Items are aligned to their size, up to 16 bytes.
    #[inline(always)]
    unsafe fn item(self, at: usize, channels: u32) -> Item<T> {
        let mut values = [[T::from_f32(0.0); VECTOR_ELEMENTS]; 2];
        if is_pair::<T>(channels) {
            let words = self.words.load_vec::<4>(at / 2);
            unroll!(4, |i| {
                let [low, high] = halves_of(words[i]);
                values[i / 2][2 * (i % 2)] = low;
                values[i / 2][2 * (i % 2) + 1] = high;
            });
        } else if channels == VECTOR_ELEMENTS as u32 {
            values[0] = self.values.load_vec(at);
        } else {
            values[0][0] = self.values.load(at);
        }
        values
    }
}

/// The two 16-bit values of a word.
#[inline(always)]
fn halves_of<T: Storage>(word: u32) -> [T; 2] {
    // SAFETY: `T` has 16 bits at every call, so the two values have the bits of the first word.
    unsafe { transmute_copy::<[u32; 2], [T; 2]>(&[word, 0]) }
}

/// Applies the epilogue and the list to an item whose first channel is `k`, and stores it from output element
/// `at` on.
///
/// # Safety
/// As for [`Input::item`], for the output; no other thread accesses the elements.
#[inline(always)]
unsafe fn write<T: Storage>(
    epilogue: &OutputEpilogue<'_, T>,
    y: Output<T>,
    mut values: Item<T>,
    (at, k): (usize, u32),
    channels: u32,
) {
    if epilogue.maps {
        unroll!(2, |half| {
            unroll!(4, |i| {
                let of_item = (VECTOR_ELEMENTS * half + i) as u32;
                if of_item < channels {
                    let of_channel = epilogue.of_channel(k + of_item);
                    let [value] = epilogue.mapped([of_channel], [values[half][i]]);
                    values[half][i] = value;
                }
            });
        });
    }
    if epilogue.lists() {
        // One value at a time, which takes fewer registers: each iteration rotates the values by one. Unused
        // values of a short item stay in place.
        let mut i = 0;
        while i < channels {
            opaque::not_unrolled();
            let [[a, b, c, d], [e, f, g, h]] = values;
            let added = epilogue.added(at + i as usize);
            let [a] = epilogue.listed([a], [added], move |_| k + i);
            values = if is_pair::<T>(channels) {
                [[b, c, d, e], [f, g, h, a]]
            } else if channels == VECTOR_ELEMENTS as u32 {
                [[b, c, d, a], [e, f, g, h]]
            } else {
                [[a, b, c, d], [e, f, g, h]]
            };
            i = opaque::to_compiler(i + 1);
        }
    }
    if is_pair::<T>(channels) {
        let mut words = [0; 4];
        unroll!(4, |i| {
            let (vector, first) = (values[i / 2], 2 * (i % 2));
            words[i] = word_of([vector[first], vector[first + 1]]);
        });
        y.words.store_vec(at / 2, words);
    } else if channels == VECTOR_ELEMENTS as u32 {
        y.values.store_vec(at, values[0]);
    } else {
        y.values.store(at, values[0][0]);
    }
}

/// The word that holds two 16-bit values.
#[inline(always)]
fn word_of<T: Storage>(values: [T; 2]) -> u32 {
    // SAFETY: `T` has 16 bits at every call, so both types have 32 bits.
    unsafe { transmute_copy::<[T; 2], u32>(&values) }
}

/// The class results that one phase of rows and columns takes in an NHWC output.
#[derive(Clone, Copy)]
struct Phase<T> {
    class: Input<T>,
    /// The first element of the slice in the results, at the thread's channels.
    first: u64,
    /// Channels of a pixel of the results.
    channels: u64,
    /// Rows and columns of the slice in the results; 0 without taps.
    extents: [u32; 2],
    /// The thread's first row and column in the results.
    at: [u32; 2],
}

impl<T: Storage> Phase<T> {
    /// The results for slice `z` of a sample, for channels from `k` on, and for the thread's rows and columns
    /// from `p` and `q` on.
    ///
    /// # Safety
    /// The output has these rows and columns, and the results are those of the geometry's classes.
    #[inline(always)]
    unsafe fn of(
        results: &Results<T>,
        g: &InterleaveGeometry,
        (sample, z, k): (u64, u32, u32),
        [p, q]: [u32; 2],
    ) -> Self {
        let [slices, rows, columns] = &g.axes;
        let z = position(slices, z);
        let p = rows.phase(p, math::high_word);
        let q = columns.phase(q, math::high_word);
        let (Some(z), Some(p), Some(q)) = (z, p, q) else {
            return Self {
                class: Input::new(results.bias, 0),
                first: 0,
                channels: 0,
                extents: [0; 2],
                at: [0; 2],
            };
        };
        let of_z = slices.side(z.side);
        let of_p = rows.side(p.side);
        let of_q = columns.side(q.side);
        let [left, right] = results.of_row(z.side, p.side);
        let phases = (of_z.count * of_p.count * of_q.count) as u64;
        let channels = g.channels as u64 * phases;
        let of_slice = u64::from(of_p.extent * of_q.extent);
        let of_sample = u64::from(of_z.extent) * of_slice;
        // A group's channels are ordered by phase, then by channel.
        let phase = (z.phase * of_p.count + p.phase) * of_q.count + q.phase;
        let (group, of_group) = div_rem(k, g.group_k);
        let of_group = (u64::from(group) * phases + u64::from(phase)) * u64::from(g.group_k)
            + u64::from(of_group);
        let slice = sample * of_sample + u64::from(z.at) * of_slice;
        Self {
            class: Input::new(
                if q.side == 0 { left } else { right },
                (g.n * of_sample * channels) as usize,
            ),
            first: slice * channels + of_group,
            channels,
            extents: [of_p.extent, of_q.extent],
            at: [p.at, q.at],
        }
    }
}
