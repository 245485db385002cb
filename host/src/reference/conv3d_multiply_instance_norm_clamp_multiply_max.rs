use ndarray::{Array4, ArrayView5, Axis};
use op_spec::{Conv3dMultiplyInstanceNormClampMultiplyMaxSpec, SpecError};
use rayon::prelude::*;

use crate::weights::Conv3dMultiplyInstanceNormClampMultiplyMaxWeights;

/// `channel_max(clamp(instance_norm(conv3d(x) * multiplier)) * multiplier)`, from f32 input and
/// parameters as given, in float64 throughout.
///
/// # Errors
/// What [`Conv3dMultiplyInstanceNormClampMultiplyMaxSpec::problem`] refuses, and weights that do
/// not fit.
pub fn conv3d_multiply_instance_norm_clamp_multiply_max(
    x: ArrayView5<'_, f32>,
    weights: &Conv3dMultiplyInstanceNormClampMultiplyMaxWeights,
    spec: &Conv3dMultiplyInstanceNormClampMultiplyMaxSpec,
) -> Result<Array4<f64>, SpecError> {
    let problem = spec.problem(x.shape())?;
    weights.check(spec)?;
    let conv_weight = weights.conv_weight.mapv(f64::from);
    let conv_bias = weights.conv_bias.as_ref().map(|v| v.mapv(f64::from));
    let norm_weight = weights
        .instance_norm_weight
        .as_ref()
        .map(|v| v.mapv(f64::from));
    let norm_bias = weights
        .instance_norm_bias
        .as_ref()
        .map(|v| v.mapv(f64::from));
    let multiplier = weights.multiplier.mapv(f64::from);
    let sample = |x: ArrayView5<'_, f64>| {
        let conv_bias = conv_bias.as_ref().map(|v| v.view());
        let y = super::conv3d(x, conv_weight.view(), conv_bias, &spec.conv)?;
        let y = super::scale(y.view().into_dyn(), multiplier.view())?;
        let norm_weight = norm_weight.as_ref().map(|v| v.view());
        let norm_bias = norm_bias.as_ref().map(|v| v.view());
        let y = super::instance_norm(y.view(), norm_weight, norm_bias, &spec.instance_norm)?;
        let y = super::clamp(y.view(), &spec.clamp)?;
        let y = super::scale(y.view(), multiplier.view())?;
        super::channel_max(y.view())
    };
    let mut y = Array4::zeros(problem.output_shape());
    y.axis_chunks_iter_mut(Axis(0), 1)
        .into_par_iter()
        .zip(x.axis_chunks_iter(Axis(0), 1))
        .try_for_each(|(mut y, x)| {
            y.assign(&sample(x.mapv(f64::from).view())?);
            Ok(())
        })?;
    Ok(y)
}
