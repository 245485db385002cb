//! Convolution as a matrix product over columns.
//!
//! For one sample and one group, the output `[k, position]` is `weight [k, c * taps]` times the column matrix
//! `[c * taps, position]`. Each column holds the inputs of one output position's window. The matrix is `taps`
//! times the size of the input, so a thread holds only [`COLUMN_ELEMENTS`] of it at a time: few enough to
//! stay in the second-level cache between writing and reading.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, Axis};
use op_spec::{ConvProblem, Pad};
use rayon::prelude::*;

use crate::error::Result;
use crate::host_memory::resize;

/// The number of elements of the column matrix that a thread holds at a time: 256 KiB.
const COLUMN_ELEMENTS: usize = 1 << 16;

/// The smallest number of positions of a matrix product, for any filter size.
const MIN_POSITIONS: usize = 256;

/// Convolves one sample, all slices in standard layout.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory).
pub(super) fn convolve_sample(
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    problem: &ConvProblem<3>,
    y: &mut [f32],
) -> Result<()> {
    let (reduction, positions) = (problem.reduction(), problem.output_spatial());
    let k_per_group = problem.k_per_group();
    let chunk = (COLUMN_ELEMENTS / reduction).max(MIN_POSITIONS);
    y.par_chunks_mut(k_per_group * positions)
        .zip(weight.par_chunks(k_per_group * reduction))
        .zip(x.par_chunks(x.len() / problem.groups))
        .enumerate()
        .try_for_each(|(group, ((y, weight), x))| {
            let weight = ArrayView2::from_shape((k_per_group, reduction), weight)
                .expect("the chunk has a group's size");
            let mut y = ArrayViewMut2::from_shape((k_per_group, positions), y)
                .expect("the chunk has a group's size");
            y.axis_chunks_iter_mut(Axis(1), chunk)
                .into_par_iter()
                .enumerate()
                .try_for_each_init(Vec::new, |columns, (index, mut y)| {
                    for (mut row, k) in y.outer_iter_mut().zip(group * k_per_group..) {
                        row.fill(bias.map_or(0.0, |bias| bias[k]));
                    }
                    let len = y.ncols();
                    // Every element is overwritten.
                    resize(columns, reduction * len)?;
                    fill_columns(columns, x, problem, index * chunk, len);
                    let columns = ArrayView2::from_shape((reduction, len), &columns[..])
                        .expect("the columns have this size");
                    general_mat_mul(1.0, &weight, &columns, 1.0, &mut y);
                    Ok(())
                })
        })
}

/// Writes the padded planes of `x` to `padded`, which holds zeros.
pub(super) fn fill_pad(x: &[f32], pad: &Pad<3>, padded: &mut [f32]) {
    let [d, h, w] = pad.inner;
    let [outer_d, outer_h, outer_w] = pad.outer();
    let from = |axis: usize, position: usize| {
        let position = position as isize - pad.before[axis] as isize;
        pad.mode.source(position, pad.inner[axis])
    };
    let left = pad.before[2];
    padded
        .par_chunks_mut(outer_d * outer_h * outer_w)
        .zip(x.par_chunks(d * h * w))
        .for_each(|(padded, x)| {
            for (index, row) in padded.chunks_exact_mut(outer_w).enumerate() {
                let (Some(z), Some(p)) = (from(0, index / outer_h), from(1, index % outer_h))
                else {
                    continue;
                };
                let of = &x[(z * h + p) * w..][..w];
                row[left..][..w].copy_from_slice(of);
                for q in (0..left).chain(left + w..outer_w) {
                    row[q] = from(2, q).map_or(0.0, |column| of[column]);
                }
            }
        });
}

/// Writes the columns of output positions `start..start + len`, one row per channel and tap.
fn fill_columns(
    columns: &mut [f32],
    x: &[f32],
    problem: &ConvProblem<3>,
    start: usize,
    len: usize,
) {
    let [d, h, w] = problem.input;
    let [t_len, r_len, s_len] = problem.kernel_size;
    let [_, p_len, q_len] = problem.output;
    for (row, column) in columns.chunks_exact_mut(len).enumerate() {
        let s = row % s_len;
        let r = row / s_len % r_len;
        let t = row / (s_len * r_len) % t_len;
        let channel = row / problem.taps();
        let mut rest = column;
        let mut position = start;
        while !rest.is_empty() {
            let q = position % q_len;
            let p = position / q_len % p_len;
            let z = position / (q_len * p_len);
            let (run, after) = rest.split_at_mut(rest.len().min(q_len - q));
            position += run.len();
            rest = after;
            let depth = input_position(problem, 0, z, t);
            let height = input_position(problem, 1, p, r);
            match (depth, height) {
                (Some(depth), Some(height)) => {
                    let first = ((channel * d + depth) * h + height) * w;
                    fill_run(run, &x[first..first + w], problem, q, s);
                }
                _ => run.fill(0.0),
            }
        }
    }
}

/// Writes the inputs of filter column `s` for outputs `q..` of a row, with zeros beyond the row's ends.
fn fill_run(run: &mut [f32], row: &[f32], problem: &ConvProblem<3>, q: usize, s: usize) {
    let (stride, padding) = (problem.stride[2], problem.padding[2]);
    let offset = q * stride + s * problem.dilation[2];
    let left = padding
        .saturating_sub(offset)
        .div_ceil(stride)
        .min(run.len());
    let (pad, run) = run.split_at_mut(left);
    pad.fill(0.0);
    let first = (offset + left * stride).saturating_sub(padding);
    let inside = row
        .len()
        .saturating_sub(first)
        .div_ceil(stride)
        .min(run.len());
    let (run, pad) = run.split_at_mut(inside);
    pad.fill(0.0);
    if inside == 0 {
        return;
    }
    if stride == 1 {
        run.copy_from_slice(&row[first..first + inside]);
    } else {
        for (v, x) in run.iter_mut().zip(row[first..].iter().step_by(stride)) {
            *v = *x;
        }
    }
}

/// The input position of tap `tap` for output position `output`, if it is inside the input.
fn input_position(
    problem: &ConvProblem<3>,
    axis: usize,
    output: usize,
    tap: usize,
) -> Option<usize> {
    let padded = output * problem.stride[axis] + tap * problem.dilation[axis];
    let position = padded.checked_sub(problem.padding[axis])?;
    (position < problem.input[axis]).then_some(position)
}
