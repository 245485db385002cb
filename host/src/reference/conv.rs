use ndarray::{Array4, Array5, ArrayView1, ArrayView4, ArrayView5, Axis};
use op_spec::{Conv2dSpec, Conv3dSpec, ConvProblem, SpecError};
use rayon::prelude::*;

/// `y[n, k, p, q] = bias[k] + sum over c, r, s of weight[k, c, r, s] * x[n, c, p', q']` with
/// `p' = p * stride - padding + r * dilation`, `q'` likewise, and zeros outside the image.
///
/// # Errors
/// What [`Conv2dSpec::problem`] refuses.
pub fn conv2d(
    x: ArrayView4<'_, f64>,
    weight: ArrayView4<'_, f64>,
    bias: Option<ArrayView1<'_, f64>>,
    spec: &Conv2dSpec,
) -> Result<Array4<f64>, SpecError> {
    let bias_shape = bias.as_ref().map(|bias| bias.shape());
    let problem = spec.problem(x.shape(), weight.shape(), bias_shape)?;
    let depth = Axis(2);
    let (x, weight) = (x.insert_axis(depth), weight.insert_axis(depth));
    Ok(convolve(x, weight, bias, &problem.as_conv3d()).remove_axis(depth))
}

/// [`conv2d`] with one more dimension.
///
/// # Errors
/// What [`Conv3dSpec::problem`] refuses.
pub fn conv3d(
    x: ArrayView5<'_, f64>,
    weight: ArrayView5<'_, f64>,
    bias: Option<ArrayView1<'_, f64>>,
    spec: &Conv3dSpec,
) -> Result<Array5<f64>, SpecError> {
    let bias_shape = bias.as_ref().map(|bias| bias.shape());
    let problem = spec.problem(x.shape(), weight.shape(), bias_shape)?;
    Ok(convolve(x, weight, bias, &problem))
}

fn convolve(
    x: ArrayView5<'_, f64>,
    weight: ArrayView5<'_, f64>,
    bias: Option<ArrayView1<'_, f64>>,
    problem: &ConvProblem<3>,
) -> Array5<f64> {
    let [p, q] = [problem.output[1], problem.output[2]];
    let x = x.as_standard_layout();
    let x = x.as_slice().expect("standard layout is contiguous");
    let mut y = Array5::zeros((problem.n, problem.k, problem.output[0], p, q));
    let rows = y.as_slice_mut().expect("a new array is contiguous");
    // One task per plane of an output channel; its rows stay in the cache while they are summed.
    rows.par_chunks_mut(p * q)
        .enumerate()
        .for_each(|(plane, rows)| {
            let z = plane % problem.output[0];
            let k = plane / problem.output[0] % problem.k;
            let n = plane / problem.output[0] / problem.k;
            for (p, row) in rows.chunks_exact_mut(q).enumerate() {
                row.fill(bias.map_or(0.0, |bias| bias[k]));
                add_taps(row, problem, x, &weight, [n, k, z, p]);
            }
        });
    y
}

/// Adds to one output row what every filter element contributes to it.
fn add_taps(
    row: &mut [f64],
    problem: &ConvProblem<3>,
    x: &[f64],
    weight: &ArrayView5<'_, f64>,
    [n, k, z, p]: [usize; 4],
) {
    let [d, h, w] = problem.input;
    let [t_len, r_len, s_len] = problem.kernel_size;
    let first_channel = k / problem.k_per_group() * problem.c_per_group();
    for c in 0..problem.c_per_group() {
        for t in 0..t_len {
            let Some(in_z) = input_position(problem, 0, z, t) else {
                continue;
            };
            for r in 0..r_len {
                let Some(in_p) = input_position(problem, 1, p, r) else {
                    continue;
                };
                let channel = n * problem.c + first_channel + c;
                let start = ((channel * d + in_z) * h + in_p) * w;
                let input_row = &x[start..start + w];
                for s in 0..s_len {
                    add_tap(row, input_row, weight[[k, c, t, r, s]], problem, s);
                }
            }
        }
    }
}

/// `row[q] += weight * input_row[q * stride - padding + s * dilation]` wherever that is inside.
fn add_tap(row: &mut [f64], input_row: &[f64], weight: f64, problem: &ConvProblem<3>, s: usize) {
    let (stride, padding) = (problem.stride[2], problem.padding[2]);
    let offset = s * problem.dilation[2];
    // The first output whose input is not left of the row, and that input.
    let first = padding.saturating_sub(offset).div_ceil(stride);
    let start = first * stride + offset - padding.min(first * stride + offset);
    let (Some(outputs), Some(inputs)) = (row.get_mut(first..), input_row.get(start..)) else {
        return;
    };
    if stride == 1 {
        // The same as below, in a form that becomes vector instructions.
        for (y, x) in outputs.iter_mut().zip(inputs) {
            *y += weight * x;
        }
    } else {
        for (y, x) in outputs.iter_mut().zip(inputs.iter().step_by(stride)) {
            *y += weight * x;
        }
    }
}

/// Where tap `tap` of output position `output` reads, if that is inside the input.
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
