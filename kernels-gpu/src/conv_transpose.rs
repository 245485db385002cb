//! `conv_transpose1d`, `conv_transpose2d` and `conv_transpose3d`: what is around the convolutions of their
//! classes of phases, which `launch_config::conv_transpose` defines.
//!
//! A class's filters are every `n`-th tap of the weight, in reverse. Its convolution leaves the outputs of
//! each phase side by side in a plane of their own. The kernels that interleave look up, for each output, in
//! which class, phase and position it is: a pixel shuffle whose phases may have different extents. They apply
//! what stands behind the transposed convolution, as depthwise convolutions do: results are those of the
//! classes, which are rounded already.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::conv_transpose::{
    AxisPhases, BLOCK_ITEMS, BLOCK_THREADS, InterleaveGeometry, MIN_BLOCKS, PhaseFiltersGeometry,
    PhasePosition, TransposedAxis,
};
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::ResidualList;

use crate::parts::index::{NearSegments, div_rem, div_rem_u64};
use crate::parts::store::{Store, StoreEpilogue};
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
/// `weight` has `g.weight_elements()` elements, `filters` `g.filters() * g.filter_elements()`. With a bias
/// `bias` has `g.groups * g.group_k` elements and `phase_bias` `g.filters()`. Outputs are apart from all
/// else.
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
    // Group, phase and channel of the group.
    let of_filter = |number: u64| {
        let (number, k) = div_rem_u64(number, g.group_k as u64);
        let (group, phase) = div_rem_u64(number, phases as u64);
        (group, phase as u32, k)
    };
    let (number, rest) = div_rem_u64(element, filter);
    let (group, phase, k) = of_filter(number);
    let (rest, s) = div_rem_u64(rest, g.taps[2] as u64);
    let (rest, r) = div_rem_u64(rest, g.taps[1] as u64);
    let (c, t) = div_rem_u64(rest, g.taps[0] as u64);
    let (rows, column) = div_rem(phase, g.phases[2]);
    let (slice, row) = div_rem(rows, g.phases[1]);
    // Of each axis the tap in the weight: later ones first.
    let source = |axis: usize, phase: u32, tap: u64| {
        let later = g.taps[axis] - 1 - tap as u32;
        (g.first[axis] + phase + later * g.distance[axis]) as u64
    };
    let (t, r, s) = (source(0, slice, t), source(1, row, r), source(2, column, s));
    let channels = (group * g.group_c as u64 + c) * g.group_k as u64 + k;
    let at = (channels * g.kernel[0] as u64 + t) * g.kernel[1] as u64 + r;
    let at = at * g.kernel[2] as u64 + s;
    filters.store(element as usize, weight.load(at as usize));
    if g.bias.is_present() && element < all {
        let bias = Global::new(bias, (g.groups * g.group_k) as usize);
        let phase_bias = GlobalMut::new(phase_bias, all as usize);
        let (group, _, k) = of_filter(element);
        let channel = group * g.group_k as u64 + k;
        phase_bias.store(element as usize, bias.load(channel as usize));
    }
}

/// The results of the classes, by their numbers, and the bias of outputs without taps.
#[derive(Clone, Copy)]
struct Results<T> {
    classes: [*const T; 8],
    bias: *const T,
}

impl<T: Storage> Results<T> {
    /// The two classes of these sides of slices and rows.
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
    /// It is one of the output's, each of which has a bias if the geometry says so.
    #[inline(always)]
    unsafe fn bias(&self, g: &InterleaveGeometry, channel: u32) -> T {
        if g.bias.is_present() {
            Global::new(self.bias, g.channels as usize).load(channel as usize)
        } else {
            T::from_f32(0.0)
        }
    }
}

/// The side of an axis that a position is on.
#[inline(always)]
fn side(axis: &TransposedAxis, side: u32) -> AxisPhases {
    if side == 0 {
        axis.sides[0]
    } else {
        axis.sides[1]
    }
}

/// Where an axis has output element `y`.
#[inline(always)]
fn position(axis: &TransposedAxis, y: u32) -> Option<PhasePosition> {
    axis.position(y, math::high_word)
}

/// Part of a row of NCHW results: for either side of the columns, the class with the first element of the row
/// in its first phase of columns.
#[derive(Clone, Copy)]
struct Row<T> {
    classes: [(Global<T>, u64); 2],
    /// Elements from a phase of columns to the next.
    pitches: [u64; 2],
}

impl<T: Storage> Row<T> {
    /// Row `p` of slice `z` in plane `plane`, a plane of group `group` of its sample; none without taps.
    ///
    /// # Safety
    /// The output has the row; the results are those of the geometry.
    #[inline(always)]
    unsafe fn of(
        results: &Results<T>,
        g: &InterleaveGeometry,
        (plane, group): (u64, u64),
        [z, p]: [u32; 2],
    ) -> Option<Self> {
        let [slices, rows, columns] = &g.axes;
        let (z, p) = (position(slices, z)?, position(rows, p)?);
        let (of_z, of_p) = (side(slices, z.side), side(rows, p.side));
        let pointers = results.of_row(z.side, p.side);
        let group_k = g.group_k.divisor as u64;
        let of_class = |column: usize| {
            let of = &columns.sides[column];
            let phases = (of_z.count * of_p.count * of.count) as u64;
            let elements = (of_z.extent * of_p.extent * of.extent) as u64;
            // Planes of a group are those of its phases one after the other.
            let phase = ((z.phase * of_p.count + p.phase) * of.count) as u64;
            let first = plane + group_k * (group * phases.saturating_sub(1) + phase);
            let row = ((z.at * of_p.extent + p.at) * of.extent) as u64;
            let len = g.n * g.channels as u64 * phases * elements;
            let class = Global::new(pointers[column], len as usize);
            ((class, first * elements + row), group_k * elements)
        };
        let (first, second) = (of_class(0), of_class(1));
        Some(Self {
            classes: [first.0, second.0],
            pitches: [first.1, second.1],
        })
    }

    /// The element of column `q`; none without taps.
    ///
    /// # Safety
    /// The output has the column.
    #[inline(always)]
    unsafe fn load(&self, columns: &TransposedAxis, q: u32) -> Option<T> {
        let q = position(columns, q)?;
        let ((class, first), pitch) = if q.side == 0 {
            (self.classes[0], self.pitches[0])
        } else {
            (self.classes[1], self.pitches[1])
        };
        let at = first + q.phase as u64 * pitch + q.at as u64;
        Some(class.load(at as usize))
    }
}

/// A block writes up to four vectors a thread of the NCHW output `y`, from the classes' NCHW results through
/// an epilogue and a list.
///
/// *Launch*: `g.shape(Layout::Nchw)`. *Mapping*: neighbouring threads write neighbouring vectors of four, and
/// four vectors each, a block's width apart. A vector's elements are looked up one by one; what they share of
/// a row is computed once. A warp's loads from each phase are of neighbouring elements. *Barriers*: none.
/// *Traffic*: each output is written once, and what it is made of is read once.
///
/// # Safety
/// `y` has `g.elements()` elements and starts on 16 bytes, and so does `residual` if the list adds it. Result
/// `i` is the output of the convolution of class `i` of `g.classes()`, for each that has one; `bias` has
/// `g.channels` elements with a bias, and so have `gain` and `shift` if the epilogue has them. `y` is apart
/// from all of them. A plane has less than 2^31 elements.
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
    residual: *const T,
    y: *mut T,
    g: &InterleaveGeometry,
    epilogue: Epilogue,
    list: &ResidualList,
) {
    let results = Results {
        classes: [
            result_0, result_1, result_2, result_3, result_4, result_5, result_6, result_7,
        ],
        bias,
    };
    let epilogue = StoreEpilogue {
        gain,
        shift,
        epilogue,
    };
    let store = Store {
        epilogue,
        list,
        residual,
    };
    let epilogue = OutputEpilogue::new(store, g);
    let y = GlobalMut::new(y, g.elements() as usize);
    let vector = VECTOR_ELEMENTS as u32;
    let start = thread::block_idx_x() as u64 * (BLOCK_ITEMS * vector) as u64;
    let planes = NearSegments::from(start, g.plane as u64, &g.near_plane);
    let groups = NearSegments::from(planes.first, g.group_k.divisor as u64, &g.group_k);
    let (_, first_channel) = div_rem_u64(planes.first, g.channels as u64);
    let channel = |plane: u64| {
        let begun = (plane - planes.first) as u32;
        div_rem(first_channel as u32 + begun, g.channels).1
    };
    // Plane and group, slice and row, column.
    let locate = |local: u32| {
        let (plane, position) = planes.position(local);
        let group = groups.first + groups.locate(plane).0 as u64;
        let (row, q) = g.columns.div_rem(position as u32, math::high_word);
        let (z, p) = g.rows.div_rem(row, math::high_word);
        ((planes.first + plane as u64, group), [z, p], q)
    };
    let mut local = thread::thread_idx_x() * vector;
    while local < BLOCK_ITEMS * vector {
        let at = start as usize + local as usize;
        if at >= y.len() {
            return;
        }
        let is_whole = at + VECTOR_ELEMENTS <= y.len();
        let mut values = [T::from_f32(0.0); VECTOR_ELEMENTS];
        let (plane, row, q) = locate(local);
        if is_whole && q + vector <= g.columns.divisor {
            let row = Row::of(&results, g, plane, row);
            let mut has_taps = [false; VECTOR_ELEMENTS];
            if let Some(row) = row {
                unroll!(4, |i| {
                    if let Some(value) = row.load(&g.axes[2], q + i as u32) {
                        (values[i], has_taps[i]) = (value, true);
                    }
                });
            }
            if g.bias.is_present() && !(has_taps[0] && has_taps[1] && has_taps[2] && has_taps[3]) {
                let bias = results.bias(g, channel(plane.0));
                unroll!(4, |i| {
                    if !has_taps[i] {
                        values[i] = bias;
                    }
                });
            }
            if epilogue.maps {
                let of_channel = epilogue.of_channel(channel(plane.0));
                values = epilogue.mapped([of_channel; VECTOR_ELEMENTS], values);
            }
        } else {
            // Elements of several rows, perhaps of several channels: each comes in as the vector's last.
            let mut i = 0;
            while i < vector {
                opaque::not_unrolled();
                let [_, second, third, fourth] = values;
                let mut value = T::from_f32(0.0);
                if at + (i as usize) < y.len() {
                    let (plane, row, q) = locate(local + i);
                    let result = match Row::of(&results, g, plane, row) {
                        Some(row) => row.load(&g.axes[2], q),
                        None => None,
                    };
                    value = match result {
                        Some(value) => value,
                        None => results.bias(g, channel(plane.0)),
                    };
                    if epilogue.maps {
                        let of_channel = epilogue.of_channel(channel(plane.0));
                        [value] = epilogue.mapped([of_channel], [value]);
                    }
                }
                values = [second, third, fourth, value];
                i += 1;
            }
        }
        let values = epilogue.listed(at, values);
        if is_whole {
            y.store_vec(at, values);
        } else {
            unroll!(4, |i| {
                if at + i < y.len() {
                    y.store(at + i, values[i]);
                }
            });
        }
        local += BLOCK_THREADS * vector;
    }
}
