//! The sums of a convolution. Each output element sums channels and taps in order, without the taps outside
//! of the input.

use ndarray::{Array5, ArrayD, ArrayView5};
use op_spec::ConvProblem;
use rayon::prelude::*;

/// The terms of the sums.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Terms {
    Products,
    /// The magnitudes of products and bias.
    Magnitudes,
}

/// The number of filters computed side by side.
const LANES: usize = 16;

/// The least number of filters that is worth computing side by side.
const FEWEST: usize = 6;

/// A convolution of padded volumes.
pub(super) fn convolve(
    x: &ArrayView5<'_, f64>,
    weight: &ArrayView5<'_, f64>,
    bias: Option<&ArrayD<f64>>,
    problem: &ConvProblem<3>,
    terms: Terms,
) -> Array5<f64> {
    match terms {
        Terms::Products => sums::<false>(x, weight, bias, problem),
        Terms::Magnitudes => sums::<true>(x, weight, bias, problem),
    }
}

fn sums<const MAGNITUDES: bool>(
    x: &ArrayView5<'_, f64>,
    weight: &ArrayView5<'_, f64>,
    bias: Option<&ArrayD<f64>>,
    problem: &ConvProblem<3>,
) -> Array5<f64> {
    let [z, p, q] = problem.output;
    let mut y = Array5::zeros((x.shape()[0], problem.k, z, p, q));
    let (x, weight) = (x.as_standard_layout(), weight.as_standard_layout());
    let [x, weight] = [&x, &weight].map(|v| v.as_slice().expect("standard layout is contiguous"));
    let bias = |k: usize| match bias.map_or(0.0, |bias| bias[k]) {
        bias if MAGNITUDES => bias.abs(),
        bias => bias,
    };
    let (filters, plane) = (problem.k_per_group(), z * p * q);
    let sample = problem.c_per_group() * problem.input.iter().product::<usize>();
    let side_by_side = if filters < FEWEST { 1 } else { LANES };
    // One task per range of filters of a group, on one sample.
    let of_groups = y.as_slice_mut().expect("a new array is contiguous");
    of_groups
        .par_chunks_mut(filters * plane)
        .enumerate()
        .for_each(|(group, y)| {
            let x = &x[group * sample..][..sample];
            y.par_chunks_mut(side_by_side * plane)
                .enumerate()
                .for_each(|(part, y)| {
                    let first = group % problem.groups * filters + part * side_by_side;
                    let len = y.len() / plane * problem.reduction();
                    let weight = &weight[first * problem.reduction()..][..len];
                    match side_by_side {
                        1 => by_rows::<MAGNITUDES>(y, problem, x, weight, bias(first)),
                        _ => by_filters::<MAGNITUDES>(y, problem, x, weight, |k| bias(first + k)),
                    }
                });
        });
    y
}

pub(in super::super) fn term<const MAGNITUDES: bool>(weight: f64, x: f64) -> f64 {
    let product = weight * x;
    if MAGNITUDES { product.abs() } else { product }
}

/// Computes the output of one filter. Each filter element adds its products to some rows, which stay in the
/// cache.
fn by_rows<const MAGNITUDES: bool>(
    y: &mut [f64],
    problem: &ConvProblem<3>,
    x: &[f64],
    weight: &[f64],
    bias: f64,
) {
    const CACHED: usize = 2048;
    let [d, h, w] = problem.input;
    let [_, p_len, q_len] = problem.output;
    let [t_len, r_len, s_len] = problem.kernel_size;
    let band = (CACHED / q_len).max(1);
    y.fill(bias);
    for (z, y) in y.chunks_exact_mut(p_len * q_len).enumerate() {
        for (first, y) in (0..).step_by(band).zip(y.chunks_mut(band * q_len)) {
            let mut weight = weight.iter();
            for c in 0..problem.c_per_group() {
                for t in 0..t_len {
                    let in_z = input_position(problem, 0, z, t);
                    for r in 0..r_len {
                        for (s, &weight) in (0..s_len).zip(&mut weight) {
                            let Some(in_z) = in_z else {
                                continue;
                            };
                            for (p, row) in (first..).zip(y.chunks_exact_mut(q_len)) {
                                if let Some(in_p) = input_position(problem, 1, p, r) {
                                    let input_row = &x[((c * d + in_z) * h + in_p) * w..][..w];
                                    add_tap::<MAGNITUDES>(row, input_row, weight, problem, s);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Computes `row[q] += weight * input_row[q * stride - padding + s * dilation]` for all positions inside.
fn add_tap<const MAGNITUDES: bool>(
    row: &mut [f64],
    input_row: &[f64],
    weight: f64,
    problem: &ConvProblem<3>,
    s: usize,
) {
    let (stride, padding) = (problem.stride[2], problem.padding[2]);
    let offset = s * problem.dilation[2];
    // The first output position whose input position is not left of the row, and that input position.
    let first = padding.saturating_sub(offset).div_ceil(stride);
    let start = first * stride + offset - padding.min(first * stride + offset);
    let (Some(outputs), Some(inputs)) = (row.get_mut(first..), input_row.get(start..)) else {
        return;
    };
    if stride == 1 {
        // The same as below, in a form that the compiler vectorizes.
        for (y, x) in outputs.iter_mut().zip(inputs) {
            *y += term::<MAGNITUDES>(weight, *x);
        }
    } else {
        for (y, x) in outputs.iter_mut().zip(inputs.iter().step_by(stride)) {
            *y += term::<MAGNITUDES>(weight, *x);
        }
    }
}

/// Computes the output of up to [`LANES`] filters, element by element: the same sums as [`by_rows`] in the
/// same order. The compiler vectorizes this form even for short rows.
fn by_filters<const MAGNITUDES: bool>(
    y: &mut [f64],
    problem: &ConvProblem<3>,
    x: &[f64],
    weight: &[f64],
    bias: impl Fn(usize) -> f64,
) {
    let [d, h, w] = problem.input;
    let [z_len, p_len, q_len] = problem.output;
    let [t_len, r_len, s_len] = problem.kernel_size;
    let plane = z_len * p_len * q_len;
    let filters = y.len() / plane;
    let mut bias_of = [0.0; LANES];
    for (k, value) in bias_of[..filters].iter_mut().enumerate() {
        *value = bias(k);
    }
    // The filters interleaved by element.
    let mut beside = vec![[0.0; LANES]; problem.reduction()];
    for (k, weight) in weight.chunks_exact(problem.reduction()).enumerate() {
        for (beside, &weight) in beside.iter_mut().zip(weight) {
            beside[k] = weight;
        }
    }
    // For the taps inside the input for one output: the tap's index, and its offset within a channel.
    let mut inside = Vec::with_capacity(t_len * r_len * s_len);
    for output in 0..plane {
        let position = |axis, output, tap| input_position(problem, axis, output, tap);
        inside.clear();
        for t in 0..t_len {
            let Some(in_z) = position(0, output / (p_len * q_len), t) else {
                continue;
            };
            for r in 0..r_len {
                let Some(in_p) = position(1, output / q_len % p_len, r) else {
                    continue;
                };
                for s in 0..s_len {
                    if let Some(in_q) = position(2, output % q_len, s) {
                        inside.push(((t * r_len + r) * s_len + s, (in_z * h + in_p) * w + in_q));
                    }
                }
            }
        }
        let mut sums = bias_of;
        for (c, beside) in beside.chunks_exact(t_len * r_len * s_len).enumerate() {
            let channel = &x[c * d * h * w..][..d * h * w];
            for &(tap, from) in &inside {
                let x = channel[from];
                for (sum, &weight) in sums.iter_mut().zip(&beside[tap]) {
                    *sum += term::<MAGNITUDES>(weight, x);
                }
            }
        }
        for (y, sum) in y.chunks_exact_mut(plane).zip(sums) {
            y[output] = sum;
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

#[cfg(test)]
mod tests {
    use ndarray::Ix5;
    use op_spec::Conv3dSpec;

    use super::*;
    use crate::data::signed;

    #[test]
    fn filters_side_by_side_give_the_bits_of_one_after_the_other() {
        let rows = [
            ([1, 1, 1], [0, 0, 0], [1, 1, 1], 1),
            ([2, 1, 2], [1, 2, 0], [1, 2, 1], 2),
            ([1, 3, 1], [2, 0, 3], [2, 1, 3], 1),
        ];
        for (stride, padding, dilation, groups) in rows {
            let (mut x, weight) = (
                signed(1, &[2, 6, 5, 7, 9]),
                signed(2, &[38, 6 / groups, 2, 3, 2]),
            );
            // A product outside of the input would give NaN.
            x[[1, 2, 3, 4, 5]] = f32::INFINITY;
            let spec = Conv3dSpec::default()
                .stride(stride)
                .padding(padding)
                .dilation(dilation)
                .groups(groups);
            let problem = spec.problem(x.shape(), weight.shape(), None).unwrap();
            let of = |values: &ArrayD<f32>| {
                let values = values.mapv(f64::from);
                values.into_dimensionality::<Ix5>().unwrap()
            };
            let (x, weight) = (of(&x), of(&weight));
            let bits = |y: &[f64]| -> Vec<u64> { y.iter().map(|v| v.to_bits()).collect() };
            let filters = problem.k_per_group();
            assert!(filters > LANES && !filters.is_multiple_of(LANES));
            let y = convolve(&x.view(), &weight.view(), None, &problem, Terms::Products);
            let all = y.as_slice().unwrap();
            let one_by_one = all.len() / 2 / 38;
            let (len, sample) = (problem.reduction(), x.len() / 2 / groups);
            for (number, y) in all.chunks_exact(one_by_one).enumerate() {
                let (k, n) = (number % 38, number / 38);
                let x = &x.as_slice().unwrap()[(n * groups + k / filters) * sample..][..sample];
                let weight = &weight.as_slice().unwrap()[k * len..][..len];
                let mut wanted = vec![f64::NAN; y.len()];
                by_rows::<false>(&mut wanted, &problem, x, weight, 0.0);
                assert_eq!(bits(y), bits(&wanted), "filter {k}");
            }
        }
    }
}
