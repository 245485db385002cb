//! Both pipelines on any shape: a convolution on tensor cores that leaves the norm's statistics, then one kernel for all
//! that follows.

use super::group_norm_scale_clamp::normalise_and_clamp;
use super::group_norm_scale_max_pool2d_clamp::{self as pooling, normalise_and_pool};
use super::implicit_gemm::{GemmParameters, convolve, gemm_plan};
use super::multiply_instance_norm_clamp_multiply_channel_max::{
    self as reducing, normalise_and_reduce,
};
use crate::device::Tensor;
use crate::error::Result;
use crate::ops::{Arena, FusedOptions};
use crate::spec::{
    Conv2dGroupNormScaleMaxPoolClampProblem, Conv3dMultiplyInstanceNormClampMultiplyMaxProblem,
    MaxPool2dProblem,
};

/// The windows of a pool, if they lie side by side and are whole.
fn windows_side_by_side(pool: &MaxPool2dProblem) -> Option<[usize; 2]> {
    let [h, w] = pool.kernel_size;
    let plain = pool.stride == pool.kernel_size
        && pool.padding == [0, 0]
        && (pool.dilation[0] == 1 || h == 1)
        && (pool.dilation[1] == 1 || w == 1)
        && pool.output == [pool.input[0] / h, pool.input[1] / w];
    plain.then_some([h, w])
}

/// `clamp(max_pool2d(group_norm(conv2d(x)) * scale))`, or nothing where the convolution cannot be done so.
///
/// Where windows lie side by side, the convolution keeps of each the value that norm and scale make the largest; norm
/// and scale are monotonic, so it is the one that pooling takes. Its output is then never written.
pub(crate) fn conv2d_group_norm_scale_max_pool_clamp_by_gemm_in(
    arena: &mut Arena,
    x: &Tensor,
    parameters: &GemmParameters<'_>,
    problem: &Conv2dGroupNormScaleMaxPoolClampProblem,
    options: FusedOptions,
) -> Result<Option<Tensor>> {
    let conv = problem.conv.as_conv3d();
    let plan_for = |pool| gemm_plan(&conv, pool, x, parameters.filters, options);
    let windows = windows_side_by_side(&problem.max_pool);
    let pooled = match windows {
        Some(_) => plan_for(windows)?,
        None => None,
    };
    let output = problem.output_shape();
    let (plan, convolved) = match pooled {
        Some(plan) => (plan, output),
        None => match plan_for(None)? {
            Some(plan) => (plan, problem.conv_shape()),
            None => return Ok(None),
        },
    };
    let convolved = convolve(arena, x, parameters, &plan, options.precision, &convolved)?;
    let norm = problem.group_norm.geometry()?;
    let (y, partials, norm) = convolved.statistics(arena, &plan.geometry, norm)?;
    let after = pooling::Parameters {
        weight: parameters.norm_weight,
        bias: parameters.norm_bias,
        scale: parameters.factors,
    };
    let bounds = problem.clamp.kernel_bounds();
    let y = if pooled.is_some() {
        normalise_and_clamp(arena, &y, &partials, &after, norm, bounds)
    } else {
        let pool = problem.max_pool.geometry()?;
        normalise_and_pool(arena, &y, &partials, &after, norm, pool, &output, bounds)
    };
    y.map(Some)
}

/// `channel_max(clamp(instance_norm(conv3d(x) * m)) * m)`, or nothing where the convolution cannot be done so.
pub(crate) fn conv3d_multiply_instance_norm_clamp_multiply_max_by_gemm_in(
    arena: &mut Arena,
    x: &Tensor,
    parameters: &GemmParameters<'_>,
    problem: &Conv3dMultiplyInstanceNormClampMultiplyMaxProblem,
    options: FusedOptions,
) -> Result<Option<Tensor>> {
    let Some(plan) = gemm_plan(&problem.conv, None, x, parameters.filters, options)? else {
        return Ok(None);
    };
    let output = problem.conv_shape();
    let convolved = convolve(arena, x, parameters, &plan, options.precision, &output)?;
    let norm = problem.instance_norm.geometry()?;
    let (y, partials, norm) = convolved.statistics(arena, &plan.geometry, norm)?;
    let after = reducing::Parameters {
        weight: parameters.norm_weight,
        bias: parameters.norm_bias,
        multiplier: parameters.factors,
    };
    let geometry = problem.channel_max.geometry()?;
    let bounds = problem.clamp.kernel_bounds();
    normalise_and_reduce(arena, &y, &partials, &after, norm, geometry, bounds).map(Some)
}
