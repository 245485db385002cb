//! `layer_norm`: a norm of rows, with a weight and a bias for each index of the row.
//!
//! Where a sample has several rows, one launch is enough: the threads of a row keep it in registers,
//! normalise it, and apply a list of pointwise functions.
//!
//! Where a row is a whole sample, there are two launches. The first is the statistics kernel of `group_norm`.
//! The second combines the splits of each row and normalises. Without weight and bias, the operator is a
//! group norm of one group.

use core::mem::size_of;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, shared_array, thread};
use launch_config::elementwise::{BLOCK_THREADS, MIN_BLOCKS, ROUND_ELEMENTS};
use launch_config::layer_norm::LayerNormGeometry;
use launch_config::norm::ApplyGeometry;
use launch_config::pointwise::OperandList;
use launch_config::series::{self, MAPPED, PART, PARTS};
use launch_config::{VECTOR_ELEMENTS, WARP_THREADS};

use crate::parts::index::NearSegments;
use crate::parts::map::PlaneMap;
use crate::parts::planes::{Behind, NormTensors, Planes, affine};
use crate::parts::series::Series;
use crate::parts::series::store::Operands;
use crate::parts::store::GainAndShift;
use crate::parts::unroll::unroll;

shared_array! {
    /// The sum of each warp, and its sum of squared deviations.
    static LAYER_NORM_SUM: [f32; WARP_THREADS as usize];
    static LAYER_NORM_SQUARES: [f32; WARP_THREADS as usize];
}

/// A block normalises consecutive rows of `x`, multiplies each element by the weight of its index in the row
/// and adds the bias. It then applies a list, which may contain a residual and a gain and a shift of each
/// channel, and writes the results to `y`.
///
/// *Launch*: `g.rows.shape()`. *Mapping*: `g.rows.threads` neighbouring threads share a row and hold up to 32
/// values each, or up to 16 values of each of two rows, as vectors of four where rows are vector-aligned.
/// *Barriers*: two if a row has threads of several warps. *Traffic*: each element is read once, or three
/// times, mostly from cache, if the threads of its row cannot hold the whole row. Each result is written
/// once, and each element of the residual is read once. Weight and bias are read once for each row, or for
/// two rows of the same threads, from cache after the first.
///
/// # Safety
/// `x` and `y` have `g.rows.series * g.rows.count` elements, more than 0, and so has `residual` if the list
/// adds it. All three are 16-byte aligned, and `y` does not overlap the others. `weight` and `bias` have
/// `g.rows.count` elements, of f32 if the geometry says so, or are null. If the list has them, `gain` and
/// `shift` have a value for each channel.
#[kernel(
    instances(T: [f32, f16, bf16]),
    max_threads = series::MAX_BLOCK_THREADS,
    min_blocks = series::MIN_BLOCKS
)]
pub unsafe fn layer_norm_rows<T: Storage>(
    x: *const T,
    weight: *const T,
    bias: *const T,
    residual: *const T,
    gain: *const f32,
    shift: *const f32,
    y: *mut T,
    g: &LayerNormGeometry,
    list: &OperandList,
) {
    let row = Series::<true>::of_thread(&g.rows);
    let batches = g.rows.batches;
    let operands = Operands {
        list,
        residual,
        of_channels: GainAndShift { gain, shift },
    };
    let add = |a: f32, b: f32| a + b;
    let per_count = 1.0 / g.rows.count as f32;
    let mut values = row.load(x, 0, 0.0);
    let mut sums = row.reduced(values, add);
    let mut batch = 1;
    while batch < batches {
        opaque::not_unrolled();
        values = row.load(x, batch, 0.0);
        let added = row.reduced(values, add);
        sums = [sums[0] + added[0]; PARTS];
        batch += 1;
    }
    let sums = row.together(sums, LAYER_NORM_SUM.view(), add);
    let means = row.of_parts(|v| sums[v] * per_count);
    // From the last batch, which the thread still holds.
    let mut squares = [0.0; PARTS];
    loop {
        opaque::not_unrolled();
        batch -= 1;
        unroll!(32, |i| {
            values[i] -= means[i / PART];
        });
        let of = |part: usize| {
            let first = part * PART;
            let mut sums = [0.0; 2];
            if row.has_all::<PART>(batch, first as u32) {
                unroll!(16, |i| {
                    let deviation = values[first + i];
                    sums[i % 2] = math::fma(deviation, deviation, sums[i % 2]);
                });
            } else {
                unroll!(16, |i| {
                    if row.has(batch, first + i) {
                        let deviation = values[first + i];
                        sums[i % 2] = math::fma(deviation, deviation, sums[i % 2]);
                    }
                });
            }
            sums[0] + sums[1]
        };
        let added = row.merged([of(0), of(1)], add);
        squares = row.of_parts(|v| squares[v] + added[v]);
        if opaque::to_compiler(batch) == 0 {
            break;
        }
        values = row.load(x, batch - 1, 0.0);
    }
    let squares = row.together(squares, LAYER_NORM_SQUARES.view(), add);
    let rstds = row.of_parts(|v| math::rsqrt(squares[v] * per_count + g.eps));
    let of_indices = |numbers: *const T, batch: u32, start: u32, absent: f32| {
        // Evaluated each time: otherwise the compiler would duplicate the loops for both cases.
        if opaque::to_compiler(u32::from(numbers.is_null())) != 0 {
            [absent; MAPPED]
        } else if size_of::<T>() < size_of::<f32>() && g.affine_type.is_f32() {
            row.of_indices(numbers.cast::<f32>(), batch, start, absent)
        } else {
            row.of_indices(numbers, batch, start, absent)
        }
    };
    unroll!(32, |i| {
        values[i] *= rstds[i / PART];
    });
    loop {
        opaque::not_unrolled();
        unroll!(2, |some| {
            let mut start = some * MAPPED;
            let mut weights = of_indices(weight, batch, start as u32, 1.0);
            let mut biases = of_indices(bias, batch, start as u32, 0.0);
            unroll!(2, |part| {
                unroll!(8, |i| {
                    let value = math::fma(values[start + i], weights[i], biases[i]);
                    // Computed here: otherwise all weights and biases would be loaded first.
                    values[start + i] = f32::from_bits(opaque::to_compiler(value.to_bits()));
                });
                start += PART;
                // The rows of a thread have the same weights.
                if part == 0 && opaque::to_compiler(u32::from(g.rows.has_several())) == 0 {
                    weights = of_indices(weight, batch, start as u32, 1.0);
                    biases = of_indices(bias, batch, start as u32, 0.0);
                }
            });
        });
        row.store(y, batch, values, operands);
        batch += 1;
        if opaque::to_compiler(batch) == batches {
            break;
        }
        values = row.load(x, batch, 0.0);
        unroll!(32, |i| {
            values[i] = (values[i] - means[0]) * rstds[0];
        });
    }
}

/// A block normalises `g.block_elements` consecutive elements of `x` into `y`.
///
/// *Launch*: `g.shape()`. *Mapping*: vectors go to the threads in turn. *Barriers*: one, after the statistics
/// of the block's rows are in shared memory, and one before it if rows are split. *Traffic*: each element is
/// read once and written once. Weight and bias are read once for each row, from cache after the first.
///
/// # Safety
/// `x` and `y` have `g.elements` elements and are 16-byte aligned; `y` is `x` or does not overlap it.
/// `g.norm` has one channel, whose plane is a row, and no weight or bias. `partials` is the output of
/// `group_norm`'s statistics kernel for `x`. `weight` and `bias` have `g.spatial` elements, of f32 if the
/// norm says so, or are null.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn layer_norm_apply<T: Storage>(
    x: *const T,
    partials: *const f32,
    weight: *const T,
    bias: *const T,
    y: *mut T,
    g: &ApplyGeometry,
) {
    let start = thread::block_idx_x() as u64 * g.block_elements as u64;
    let left = (g.elements - start).min(g.block_elements as u64) as u32;
    // Accesses are below `left`, and so within the block's own elements.
    let x = Global::new(x, g.elements as usize).slice(start as usize, left as usize);
    let y = GlobalMut::new(y, g.elements as usize).slice(start as usize, left as usize);
    let row = g.spatial as usize;
    let segments = NearSegments::from(start, g.spatial, &g.near);
    let count = segments.locate(left - 1).0 + 1;
    let tensors = NormTensors::<T> {
        partials,
        before: core::ptr::null(),
        weight: core::ptr::null(),
        bias: core::ptr::null(),
        scale: core::ptr::null(),
        behind: Behind::FACTORS,
    };
    let planes = Planes::stage(&g.norm, tensors, segments.first, count);
    let map = |local: u32, x: f32| {
        let (begun, position) = segments.position(local);
        let params = planes.params(begun);
        let of_element = |values: *const T, absent: f32| {
            if values.is_null() {
                return absent;
            }
            affine(values, row, position as usize, g.norm.affine_type)
        };
        let weight = of_element(weight, 1.0);
        math::fma(params.norm(x), weight, of_element(bias, 0.0))
    };
    let mut at = thread::thread_idx_x() * VECTOR_ELEMENTS as u32;
    while at < left {
        if at + VECTOR_ELEMENTS as u32 <= left {
            let values = T::to_f32_vector(x.load_vec(at as usize));
            let mapped = [0, 1, 2, 3].map(|i: u32| map(at + i, values[i as usize]));
            y.store_vec(at as usize, T::from_f32_vector(mapped));
        } else {
            let mut i = at;
            while i < left {
                let mapped = map(i, x.load(i as usize).to_f32());
                y.store(i as usize, T::from_f32(mapped));
                i += 1;
            }
        }
        at += ROUND_ELEMENTS as u32;
    }
}
