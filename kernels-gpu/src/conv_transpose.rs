//! `conv_transpose1d`, `conv_transpose2d` and `conv_transpose3d`: the kernels before and after the
//! convolutions of the phase classes, which `launch_config::conv_transpose` defines.
//!
//! A class's filters are every `n`-th tap of the weight, in reverse. Its convolution writes the outputs of
//! each phase to a plane of their own. The interleave kernels look up class, phase and position of each
//! output: a pixel shuffle whose phases may have different extents. They also apply the epilogue of the
//! transposed convolution. Its input is the convolutions' results, which are already rounded to the storage
//! type.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, thread};
use launch_config::conv_transpose::{
    BLOCK_THREADS, InterleaveGeometry, MIN_BLOCKS, PhaseFiltersGeometry, PhasePosition,
    TransposedAxis,
};
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;

use crate::parts::index::{div_rem, div_rem_u64};
use crate::parts::store::{GainAndShift, Store, StoreEpilogue};
use crate::parts::unroll::unroll;

mod epilogue;
pub mod nhwc;

use epilogue::OutputEpilogue;

/// A thread copies an element of a class's filters `(groups * phases * k, c, t, r, s)` from the weight
/// `(groups * c, k, t, r, s)`, where `c` and `k` are channels of a group. The first threads repeat the bias
/// for each phase.
///
/// *Launch*: `g.shape()`. *Mapping*: neighbouring threads write neighbouring elements. *Barriers*: none.
/// *Traffic*: each element of the class is read once and written once.
///
/// # Safety
/// `weight` has `g.weight_elements()` elements, `filters` `g.filters() * g.filter_elements()`. With a bias,
/// `bias` has `g.groups * g.group_k` elements and `phase_bias` has `g.filters()`. Outputs overlap neither
/// each other nor the inputs.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn conv_transpose_filters<T: Storage>(
    weight: *const T,
    bias: *const T,
    filters: *mut T,
    phase_bias: *mut T,
    g: &PhaseFiltersGeometry,
) {
    let (all, filter) = (g.filters(), g.filter_elements());
    let weight = Global::new(weight, g.weight_elements() as usize);
    let filters = GlobalMut::new(filters, (all * filter) as usize);
    let element =
        thread::block_idx_x() as u64 * BLOCK_THREADS as u64 + thread::thread_idx_x() as u64;
    if element >= all * filter {
        return;
    }
    let phases = g.phases[0] * g.phases[1] * g.phases[2];
    // Group, phase and channel in the group of a filter.
    let of_filter = |number: u64| {
        let (group_k, phases) = (g.group_k as u64, phases as u64);
        if g.shuffled.is_present() {
            let (number, phase) = div_rem_u64(number, phases);
            let (group, k) = div_rem_u64(number, group_k);
            return (group, phase as u32, k);
        }
        let (number, k) = div_rem_u64(number, group_k);
        let (group, phase) = div_rem_u64(number, phases);
        (group, phase as u32, k)
    };
    let (number, rest) = div_rem_u64(element, filter);
    let (group, phase, k) = of_filter(number);
    let (rest, s) = div_rem_u64(rest, g.taps[2] as u64);
    let (rest, r) = div_rem_u64(rest, g.taps[1] as u64);
    let (c, t) = div_rem_u64(rest, g.taps[0] as u64);
    let (rows, column) = div_rem(phase, g.phases[2]);
    let (slice, row) = div_rem(rows, g.phases[1]);
    // The tap's index in the weight along an axis, later taps first. A tap beyond the weight's end is 0.
    let source = |axis: usize, phase: u32, tap: u64| {
        let first = g.first[axis].wrapping_add(phase);
        first.wrapping_sub(tap as u32 * g.distance[axis])
    };
    let (t, r, s) = (source(0, slice, t), source(1, row, r), source(2, column, s));
    let channels = (group * g.group_c as u64 + c) * g.group_k as u64 + k;
    let at = (channels * g.kernel[0] as u64 + t as u64) * g.kernel[1] as u64 + r as u64;
    let at = at * g.kernel[2] as u64 + s as u64;
    let mut value = T::from_f32(0.0);
    if t < g.kernel[0] && r < g.kernel[1] && s < g.kernel[2] {
        value = weight.load(at as usize);
    }
    filters.store(element as usize, value);
    if g.bias.is_present() && element < all {
        let bias = Global::new(bias, (g.groups * g.group_k) as usize);
        let phase_bias = GlobalMut::new(phase_bias, all as usize);
        let (group, _, k) = of_filter(element);
        let channel = group * g.group_k as u64 + k;
        phase_bias.store(element as usize, bias.load(channel as usize));
    }
}

/// The results of each class's convolution, and the bias for outputs without taps.
#[derive(Clone, Copy)]
struct Results<T> {
    classes: [*const T; 8],
    bias: *const T,
}

impl<T: Storage> Results<T> {
    /// The two classes (left and right columns) of a side of slices and a side of rows.
    #[inline(always)]
    fn of_row(&self, slice: u32, row: u32) -> [*const T; 2] {
        let [a, b, c, d, e, f, g, h] = self.classes;
        match (slice, row) {
            (0, 0) => [a, b],
            (0, _) => [c, d],
            (_, 0) => [e, f],
            (_, _) => [g, h],
        }
    }

    /// The bias of a channel.
    ///
    /// # Safety
    /// `channel` is below `g.channels`, and `bias` has an element for each channel if the geometry has a
    /// bias.
    #[inline(always)]
    unsafe fn bias(&self, g: &InterleaveGeometry, channel: u32) -> T {
        if g.bias.is_present() {
            Global::new(self.bias, g.channels as usize).load(channel as usize)
        } else {
            T::from_f32(0.0)
        }
    }
}

/// The phase and position of output element `y` along an axis, or `None` if it has no taps.
#[inline(always)]
fn position(axis: &TransposedAxis, y: u32) -> Option<PhasePosition> {
    axis.position(y, math::high_word)
}

/// The class results that one phase of rows and columns takes in a slice of an NCHW output.
#[derive(Clone, Copy)]
struct Slice<T> {
    class: Global<T>,
    /// The first element of the slice in the class's results.
    first: u64,
    /// Rows and columns of the slice in the results; 0 without taps.
    extents: [u32; 2],
    /// The thread's first row and column in the results.
    at: [u32; 2],
}

impl<T: Storage> Slice<T> {
    /// The results for slice `z` of channel `k` of group `group`, counted among the groups of all samples,
    /// and for the thread's rows and columns from `p` and `q` on.
    ///
    /// # Safety
    /// The output has these rows and columns, and the results are those of the geometry's classes.
    #[inline(always)]
    unsafe fn of(
        results: &Results<T>,
        g: &InterleaveGeometry,
        (group, k, z): (u64, u32, Option<PhasePosition>),
        [p, q]: [u32; 2],
    ) -> Self {
        let [slices, rows, columns] = &g.axes;
        let p = rows.phase(p, math::high_word);
        let q = columns.phase(q, math::high_word);
        let (Some(z), Some(p), Some(q)) = (z, p, q) else {
            return Self {
                class: Global::new(results.bias, 0),
                first: 0,
                extents: [0; 2],
                at: [0; 2],
            };
        };
        let of_z = slices.side(z.side);
        let of_p = rows.side(p.side);
        let of_q = columns.side(q.side);
        let [left, right] = results.of_row(z.side, p.side);
        let phases = (of_z.count * of_p.count * of_q.count) as u64;
        let elements = (of_z.extent * of_p.extent * of_q.extent) as u64;
        // A group's planes are ordered by phase, then by channel.
        let phase = (z.phase * of_p.count + p.phase) * of_q.count + q.phase;
        let plane = (group * phases + phase as u64) * u64::from(g.group_k) + k as u64;
        let len = g.n * g.channels as u64 * phases * elements;
        Self {
            class: Global::new(if q.side == 0 { left } else { right }, len as usize),
            first: plane * elements + (z.at * of_p.extent * of_q.extent) as u64,
            extents: [of_p.extent, of_q.extent],
            at: [p.at, q.at],
        }
    }
}

/// A block writes a tile of rows and columns of some slices of the NCHW output `y`, from the classes' NCHW
/// results through an epilogue and a list.
///
/// *Launch*: `g.shape(Layout::Nchw)`. *Mapping*: neighbouring threads write neighbouring columns. A thread
/// writes rows and columns of one phase, a multiple of the stride apart, so it computes their class and phase
/// once. It has four elements in flight. A warp's loads from each phase are contiguous. *Barriers*: none.
/// *Traffic*: each output is written once; each result and each element of the residual is read once.
///
/// # Safety
/// `y` has `g.elements()` elements, and so has `residual` if the list has it. `result_i` is the output of the
/// convolution of class `i` of `g.classes()`, if that class has one. `bias` has `g.channels` elements if the
/// geometry has a bias, as have `gain` and `shift` if the epilogue has them, and `gain_behind` and
/// `shift_behind` if the list has them. `y` overlaps none of the others. A plane has less than 2^31 elements.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS)]
pub unsafe fn conv_transpose_interleave<T: Storage>(
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
    let y = GlobalMut::new(y, g.elements() as usize);

    let tile = &g.tile;
    let (rest, column_run) = div_rem(thread::block_idx_x(), tile.columns.runs);
    let (rest, column_tile) = div_rem(rest, tile.columns.tiles);
    let (rest, row_run) = div_rem(rest, tile.rows.runs);
    let (slices, row_tile) = div_rem(rest, tile.rows.tiles);
    let thread = thread::thread_idx_x();
    let (rest, lane) = tile.columns.divide(thread);
    let (of_slice, of_row) = tile.rows.divide(rest);
    let number = slices as u64 * tile.slices() as u64 + of_slice as u64;
    if number >= g.all_slices() {
        return;
    }
    let (plane, z) = div_rem_u64(number, g.slices as u64);
    let (_, channel) = div_rem_u64(plane, g.channels as u64);
    let (group, k) = div_rem_u64(plane, u64::from(g.group_k));
    let of_slice = (group, k as u32, position(&g.axes[0], z as u32));
    let bias = results.bias(g, channel as u32);
    let of_channel = epilogue.of_channel(channel as u32);

    let (first_row, rows_end) = tile
        .rows
        .of_thread(row_tile, row_run, of_row, g.rows.divisor);
    let (first_column, columns_end) =
        tile.columns
            .of_thread(column_tile, column_run, lane, g.columns.divisor);
    let slice = Slice::of(&results, g, of_slice, [first_row, first_column]);
    if first_column >= columns_end {
        return;
    }
    // The next element, by columns and then by rows: its place in the output's slice, and in the class's
    // slice.
    let (columns, [rows_of_class, columns_of_class]) = (g.columns.divisor, slice.extents);
    let of_y = number * (g.rows.divisor * columns) as u64;
    let (mut p, mut q) = (first_row, first_column);
    let (mut row, [mut at_row, mut at]) = (p * columns, slice.at);
    while p < rows_end {
        opaque::not_unrolled();
        let mut places = [NOWHERE; 4];
        let mut values = [bias; 4];
        let mut added = [0.0; 4];
        unroll!(4, |i| {
            if p < rows_end {
                places[i] = row + q;
                if at_row < rows_of_class && at < columns_of_class {
                    let place = at_row * columns_of_class + at;
                    values[i] = slice.class.load((slice.first + place as u64) as usize);
                }
                added[i] = epilogue.added((of_y + places[i] as u64) as usize);
                q += tile.columns.step;
                at = at.wrapping_add(tile.columns.position_step);
                if q >= columns_end {
                    (q, at) = (first_column, slice.at[1]);
                    p += tile.rows.step;
                    row += tile.rows.step * columns;
                    at_row = at_row.wrapping_add(tile.rows.position_step);
                }
            }
        });
        if epilogue.maps {
            values = epilogue.mapped([of_channel; 4], values);
        }
        values = epilogue.listed(values, added, move |_| channel as u32);
        unroll!(4, |i| {
            if places[i] != NOWHERE {
                y.store((of_y + places[i] as u64) as usize, values[i]);
            }
        });
    }
}

/// Marks an absent element: a slice has less than 2^31.
const NOWHERE: u32 = u32::MAX;
