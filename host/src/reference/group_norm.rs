use ndarray::{ArrayD, ArrayView1, ArrayViewD};
use op_spec::{GroupNormSpec, SpecError};
use rayon::prelude::*;

/// `y = (x - mean) / sqrt(variance + eps) * weight[c] + bias[c]`, mean and (biased) variance over
/// the channels of a group and all positions of one sample.
///
/// # Errors
/// What [`GroupNormSpec::problem`] refuses.
pub fn group_norm(
    x: ArrayViewD<'_, f64>,
    weight: Option<ArrayView1<'_, f64>>,
    bias: Option<ArrayView1<'_, f64>>,
    spec: &GroupNormSpec,
) -> Result<ArrayD<f64>, SpecError> {
    let weight_shape = weight.as_ref().map(|weight| weight.shape());
    let bias_shape = bias.as_ref().map(|bias| bias.shape());
    spec.problem(x.shape(), weight_shape, bias_shape)?;
    Ok(normalize(x, weight, bias, spec))
}

/// [`group_norm`] without its checks: the pipelines call it on single samples, which the check
/// against one value per group would refuse although it allowed the batch.
pub(crate) fn normalize(
    x: ArrayViewD<'_, f64>,
    weight: Option<ArrayView1<'_, f64>>,
    bias: Option<ArrayView1<'_, f64>>,
    spec: &GroupNormSpec,
) -> ArrayD<f64> {
    let mut y = x.as_standard_layout().into_owned();
    if y.is_empty() {
        return y;
    }
    let channels_per_group = x.shape()[1] / spec.num_groups;
    let spatial: usize = x.shape()[2..].iter().product();
    let groups = y.as_slice_mut().expect("standard layout is contiguous");
    groups
        .par_chunks_mut(channels_per_group * spatial)
        .enumerate()
        .for_each(|(index, group)| {
            let count = group.len() as f64;
            let mean = group.iter().sum::<f64>() / count;
            let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
            let rstd = 1.0 / (variance + spec.eps).sqrt();
            let first = index % spec.num_groups * channels_per_group;
            for (c, channel) in (first..).zip(group.chunks_exact_mut(spatial)) {
                let weight = weight.map_or(1.0, |weight| weight[c]);
                let bias = bias.map_or(0.0, |bias| bias[c]);
                for v in channel {
                    *v = (*v - mean) * rstd * weight + bias;
                }
            }
        });
    y
}
