use ndarray::{Array4, ArrayView4};
use op_spec::{Conv2dGroupNormScaleMaxPoolClampSpec, SpecError};
use rayon::prelude::*;

use super::clamp::limiter;
use super::conv::convolve_sample;
use super::max_pool2d::pool_plane;
use super::moments::{Moments, normalize};
use crate::weights::Conv2dGroupNormScaleMaxPoolClampWeights;

/// [`reference::conv2d_group_norm_scale_max_pool_clamp`](crate::reference::conv2d_group_norm_scale_max_pool_clamp)
/// in f32, statistics in float64.
///
/// # Errors
/// What [`Conv2dGroupNormScaleMaxPoolClampSpec::problem`] refuses, and weights that do not fit.
pub fn conv2d_group_norm_scale_max_pool_clamp(
    x: ArrayView4<'_, f32>,
    weights: &Conv2dGroupNormScaleMaxPoolClampWeights,
    spec: &Conv2dGroupNormScaleMaxPoolClampSpec,
) -> Result<Array4<f32>, SpecError> {
    let problem = spec.problem(x.shape())?;
    weights.check(spec)?;
    let (conv, norm, pool) = (
        problem.conv.as_conv3d(),
        problem.group_norm,
        problem.max_pool,
    );
    let limit = limiter(&problem.clamp);
    let filter = weights.conv_weight.as_standard_layout();
    let filter = filter.as_slice().expect("standard layout is contiguous");
    let bias = weights.conv_bias.as_ref().map(|bias| bias.view());
    let plane = norm.shape.spatial;
    let pooled = pool.output[0] * pool.output[1];

    // One group of one sample: its channels are normalised and scaled in one step, then pooled
    // and clamped while they are in the cache.
    let finish_group = |tall: &mut Vec<f32>, group: usize, x: &mut [f32], y: &mut [f32]| {
        let moments = Moments::of(x);
        let rstd = moments.rstd(norm.eps);
        let channels = group * norm.channels_per_group()..;
        let planes = x.chunks_exact_mut(plane).zip(y.chunks_exact_mut(pooled));
        for (c, (x, y)) in channels.zip(planes) {
            let parameter = |values: &Option<ndarray::Array1<f32>>, absent| {
                values
                    .as_ref()
                    .map_or(absent, |values| f64::from(values[c]))
            };
            let scale = f64::from(weights.scale[c]);
            let gain = rstd * parameter(&weights.group_norm_weight, 1.0) * scale;
            let bias = parameter(&weights.group_norm_bias, 0.0) * scale;
            normalize(x, moments.mean, gain, bias);
            pool_plane(x, y, &pool, tall);
            for v in y {
                *v = limit(*v);
            }
        }
    };
    let mut y = Array4::zeros((conv.n, conv.k, pool.output[0], pool.output[1]));
    if conv.n == 0 {
        return Ok(y);
    }
    let x = x.as_standard_layout();
    let x = x.as_slice().expect("standard layout is contiguous");
    y.as_slice_mut()
        .expect("a new array is contiguous")
        .par_chunks_mut(conv.k * pooled)
        .zip(x.par_chunks(x.len() / conv.n))
        .for_each_init(
            || vec![0.0; conv.k * plane],
            |convolved, (y, x)| {
                convolve_sample(x, filter, bias, &conv, convolved);
                convolved
                    .par_chunks_mut(norm.group_len())
                    .zip(y.par_chunks_mut(norm.channels_per_group() * pooled))
                    .enumerate()
                    .for_each_init(Vec::new, |tall, (group, (x, y))| {
                        finish_group(tall, group, x, y);
                    });
            },
        );
    Ok(y)
}
