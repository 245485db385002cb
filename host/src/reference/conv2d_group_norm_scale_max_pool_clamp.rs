use ndarray::{Array4, ArrayView4, Axis, Ix4};
use op_spec::{Conv2dGroupNormScaleMaxPoolClampSpec, SpecError};
use rayon::prelude::*;

use super::group_norm::normalize;
use crate::weights::Conv2dGroupNormScaleMaxPoolClampWeights;

/// `clamp(max_pool2d(group_norm(conv2d(x)) * scale))`, from f32 input and parameters as given, in
/// float64 throughout.
///
/// # Errors
/// What [`Conv2dGroupNormScaleMaxPoolClampSpec::problem`] refuses, and weights that do not fit.
pub fn conv2d_group_norm_scale_max_pool_clamp(
    x: ArrayView4<'_, f32>,
    weights: &Conv2dGroupNormScaleMaxPoolClampWeights,
    spec: &Conv2dGroupNormScaleMaxPoolClampSpec,
) -> Result<Array4<f64>, SpecError> {
    let problem = spec.problem(x.shape())?;
    weights.check(spec)?;
    let conv_weight = weights.conv_weight.mapv(f64::from);
    let conv_bias = weights.conv_bias.as_ref().map(|v| v.mapv(f64::from));
    let norm_weight = weights
        .group_norm_weight
        .as_ref()
        .map(|v| v.mapv(f64::from));
    let norm_bias = weights.group_norm_bias.as_ref().map(|v| v.mapv(f64::from));
    let scale = weights.scale.mapv(f64::from);
    let sample = |x: ArrayView4<'_, f64>| {
        let conv_bias = conv_bias.as_ref().map(|v| v.view());
        let y = super::conv2d(x, conv_weight.view(), conv_bias, &spec.conv)?;
        let norm_weight = norm_weight.as_ref().map(|v| v.view());
        let norm_bias = norm_bias.as_ref().map(|v| v.view());
        let y = normalize(
            y.view().into_dyn(),
            norm_weight,
            norm_bias,
            &spec.group_norm,
        );
        let y = super::scale(y.view(), scale.view())?;
        let y = y
            .into_dimensionality::<Ix4>()
            .expect("norm and scale keep the rank");
        let y = super::max_pool2d(y.view(), &spec.max_pool)?;
        super::clamp(y.view().into_dyn(), &spec.clamp)
    };
    let [p, q] = problem.max_pool.output;
    let mut y = Array4::zeros((problem.conv.n, problem.conv.k, p, q));
    y.axis_chunks_iter_mut(Axis(0), 1)
        .into_par_iter()
        .zip(x.axis_chunks_iter(Axis(0), 1))
        .try_for_each(|(mut y, x)| {
            y.assign(&sample(x.mapv(f64::from).view())?);
            Ok(())
        })?;
    Ok(y)
}
