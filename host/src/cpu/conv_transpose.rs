//! Transposed convolution as a matrix product whose results are added to the output (col2im).
//!
//! For one sample and output channel, `columns [taps, position] = weight [taps, c] * x [c, position]` are the
//! products that each input position adds to the output through each tap. Positions are processed in chunks
//! that are small enough for the columns to stay in the second-level cache.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder, s};
use op_spec::ConvTransposeProblem;
use rayon::prelude::*;

use crate::error::Result;
use crate::host_memory::resize;

/// The number of elements of the columns that a thread holds at a time: 256 KiB.
const COLUMN_ELEMENTS: usize = 1 << 16;

/// The smallest number of positions of a matrix product, for any filter size.
const MIN_POSITIONS: usize = 256;

/// Transposed convolution of one sample, all slices in standard layout.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory).
pub(super) fn convolve_transposed(
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    problem: &ConvTransposeProblem<3>,
    y: &mut [f32],
) -> Result<()> {
    let (taps, group_c) = (problem.taps(), problem.c_per_group());
    let group_k = problem.k_per_group();
    let positions = x.len() / problem.c;
    let plane = y.len() / problem.k;
    let chunk = (COLUMN_ELEMENTS / taps).max(MIN_POSITIONS);
    let planes = y.par_chunks_mut(plane).enumerate();
    planes.try_for_each_init(Vec::new, |columns, (k, y)| {
        y.fill(bias.map_or(0.0, |bias| bias[k]));
        let (group, of_group) = (k / group_k, k % group_k);
        let x = &x[group * group_c * positions..][..group_c * positions];
        let x = ArrayView2::from_shape((group_c, positions), x).expect("a group's size");
        // From the group's filters `(c, k, taps)`, take this output channel's as `(taps, c)`.
        let weight = &weight[(group * group_c * group_k + of_group) * taps..];
        let strides = (taps, group_c).strides((1, group_k * taps));
        let weight = ArrayView2::from_shape(strides, weight).expect("a group's filters");
        for first in (0..positions).step_by(chunk) {
            let len = chunk.min(positions - first);
            // Every element is overwritten.
            resize(columns, taps * len)?;
            let mut columns = ArrayViewMut2::from_shape((taps, len), &mut columns[..])
                .expect("the columns have this size");
            let x = x.slice(s![.., first..first + len]);
            general_mat_mul(1.0, &weight, &x, 0.0, &mut columns);
            let columns = columns.into_slice().expect("standard layout");
            for (tap, column) in columns.chunks_exact(len).enumerate() {
                add_column(y, column, problem, tap, first);
            }
        }
        Ok(())
    })
}

/// Adds the products of the input positions from `first` on with tap `tap`.
fn add_column(
    y: &mut [f32],
    column: &[f32],
    problem: &ConvTransposeProblem<3>,
    tap: usize,
    first: usize,
) {
    let [_, h_len, w_len] = problem.input;
    let [_, r_len, s_len] = problem.kernel_size;
    let [_, p_len, q_len] = problem.output;
    let tap = [tap / (r_len * s_len), tap / s_len % r_len, tap % s_len];
    let mut rest = column;
    let mut position = first;
    while !rest.is_empty() {
        let w = position % w_len;
        let (row, after) = rest.split_at(rest.len().min(w_len - w));
        let (d, h) = (position / (w_len * h_len), position / w_len % h_len);
        position += row.len();
        rest = after;
        let (Some(z), Some(p)) = (output(problem, 0, d, tap[0]), output(problem, 1, h, tap[1]))
        else {
            continue;
        };
        let y = &mut y[(z * p_len + p) * q_len..][..q_len];
        for (w, value) in (w..).zip(row) {
            if let Some(q) = output(problem, 2, w, tap[2]) {
                y[q] += value;
            }
        }
    }
}

/// The output position to which tap `tap` of input position `input` adds, if there is one.
fn output(
    problem: &ConvTransposeProblem<3>,
    axis: usize,
    input: usize,
    tap: usize,
) -> Option<usize> {
    let padded = input * problem.stride[axis] + tap * problem.dilation[axis];
    let output = padded.checked_sub(problem.padding[axis])?;
    (output < problem.output[axis]).then_some(output)
}
