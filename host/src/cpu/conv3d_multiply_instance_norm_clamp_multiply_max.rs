use ndarray::{Array4, ArrayView5};
use op_spec::{Conv3dMultiplyInstanceNormClampMultiplyMaxSpec, SpecError};
use rayon::prelude::*;

use super::channel_max::max_over_channels;
use super::clamp::limiter;
use super::conv::convolve_sample;
use super::moments::{Moments, normalize};
use crate::weights::Conv3dMultiplyInstanceNormClampMultiplyMaxWeights;

/// [`reference::conv3d_multiply_instance_norm_clamp_multiply_max`](crate::reference::conv3d_multiply_instance_norm_clamp_multiply_max)
/// in f32, statistics in float64.
///
/// # Errors
/// What [`Conv3dMultiplyInstanceNormClampMultiplyMaxSpec::problem`] refuses, and weights that do
/// not fit.
pub fn conv3d_multiply_instance_norm_clamp_multiply_max(
    x: ArrayView5<'_, f32>,
    weights: &Conv3dMultiplyInstanceNormClampMultiplyMaxWeights,
    spec: &Conv3dMultiplyInstanceNormClampMultiplyMaxSpec,
) -> Result<Array4<f32>, SpecError> {
    let problem = spec.problem(x.shape())?;
    weights.check(spec)?;
    let (conv, norm) = (problem.conv, problem.instance_norm);
    let limit = limiter(&problem.clamp);
    let filter = weights.conv_weight.as_standard_layout();
    let filter = filter.as_slice().expect("standard layout is contiguous");
    let bias = weights.conv_bias.as_ref().map(|bias| bias.view());
    let volume = norm.shape.spatial;

    // One channel of one sample. The first multiplication scales mean and deviation, so the norm
    // of the product needs the convolution's moments alone.
    let finish_channel = |c: usize, x: &mut [f32]| {
        let parameter = |values: &Option<ndarray::Array1<f32>>, absent| {
            values
                .as_ref()
                .map_or(absent, |values| f64::from(values[c]))
        };
        let multiplier = f64::from(weights.multiplier[c]);
        let moments = Moments::of(x);
        let scaled = Moments {
            mean: moments.mean * multiplier,
            variance: moments.variance * multiplier * multiplier,
        };
        let gain =
            scaled.rstd(norm.eps) * multiplier * parameter(&weights.instance_norm_weight, 1.0);
        let bias = parameter(&weights.instance_norm_bias, 0.0);
        normalize(x, moments.mean, gain, bias);
        for v in x {
            *v = limit(*v) * weights.multiplier[c];
        }
    };
    let mut y = Array4::zeros(problem.output_shape());
    if conv.n == 0 {
        return Ok(y);
    }
    let x = x.as_standard_layout();
    let x = x.as_slice().expect("standard layout is contiguous");
    y.as_slice_mut()
        .expect("a new array is contiguous")
        .par_chunks_mut(volume)
        .zip(x.par_chunks(x.len() / conv.n))
        .for_each_init(
            || vec![0.0; conv.k * volume],
            |convolved, (y, x)| {
                convolve_sample(x, filter, bias, &conv, convolved);
                convolved
                    .par_chunks_mut(volume)
                    .enumerate()
                    .for_each(|(c, x)| finish_channel(c, x));
                max_over_channels(convolved, y);
            },
        );
    Ok(y)
}
