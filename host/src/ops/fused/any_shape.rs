//! Both pipelines on any shape: a convolution that leaves the norm's statistics, then one kernel for all that follows.

use super::convolved::{Convolved, Parameters};
use super::group_norm_scale_clamp::normalise_and_clamp;
use super::group_norm_scale_max_pool2d_clamp::{self as pooling, normalise_and_pool};
use super::implicit_gemm::FilterCache;
use super::multiply_instance_norm_clamp_multiply_channel_max::{
    self as reducing, normalise_and_reduce,
};
use super::{implicit_gemm, stencil};
use crate::device::Tensor;
use crate::error::Result;
use crate::ops::{Arena, FusedOptions};
use crate::spec::launch::implicit_gemm::GemmPlan;
use crate::spec::launch::stencil::StencilGeometry;
use crate::spec::{
    Conv2dGroupNormScaleMaxPoolClampProblem, Conv3dMultiplyInstanceNormClampMultiplyMaxProblem,
    ConvProblem, MaxPool2dProblem,
};

/// The way to convolve.
enum Way {
    /// On tensor cores.
    Gemm(GemmPlan),
    /// On FMA, of one channel to a group.
    Stencil(StencilGeometry),
}

impl Way {
    /// The way for this convolution of `x`, with outputs pooled in windows of `pool` that lie side by side; nothing where it
    /// cannot be done so.
    fn new(
        problem: &ConvProblem<3>,
        pool: Option<[u32; 2]>,
        x: &Tensor,
        cache: &FilterCache,
        options: FusedOptions,
    ) -> Result<Option<Self>> {
        let geometry = problem.geometry()?;
        Ok(if StencilGeometry::takes(&geometry) {
            stencil::stencil_geometry(&geometry, pool).map(Self::Stencil)
        } else if GemmPlan::pays(&geometry) {
            implicit_gemm::gemm_plan(&geometry, pool, x, cache, options).map(Self::Gemm)
        } else {
            None
        })
    }

    /// The convolution of `x`; its output has the shape `output`.
    fn convolve(
        &self,
        arena: &mut Arena,
        x: &Tensor,
        parameters: &Parameters<'_>,
        options: FusedOptions,
        output: &[usize],
    ) -> Result<Convolved> {
        match self {
            Self::Gemm(plan) => {
                implicit_gemm::convolve(arena, x, parameters, plan, options.precision, output)
            }
            Self::Stencil(geometry) => stencil::convolve(arena, x, parameters, geometry, output),
        }
    }
}

/// The windows of a pool, if they lie side by side and are whole.
fn windows_side_by_side(pool: &MaxPool2dProblem) -> Option<[u32; 2]> {
    let [h, w] = pool.kernel_size;
    let plain = pool.stride == pool.kernel_size
        && pool.padding == [0, 0]
        && (pool.dilation[0] == 1 || h == 1)
        && (pool.dilation[1] == 1 || w == 1)
        && pool.output == [pool.input[0] / h, pool.input[1] / w];
    plain.then_some([u32::try_from(h).ok()?, u32::try_from(w).ok()?])
}

/// `clamp(max_pool2d(group_norm(conv2d(x)) * scale))`, or nothing where the convolution cannot be done so.
///
/// Where windows lie side by side, the convolution keeps of each the value that norm and scale make the largest; norm
/// and scale are monotonic, so it is the one that pooling takes. Its output is then never written.
pub(crate) fn conv2d_group_norm_scale_max_pool_clamp_any_shape_in(
    arena: &mut Arena,
    x: &Tensor,
    parameters: &Parameters<'_>,
    problem: &Conv2dGroupNormScaleMaxPoolClampProblem,
    options: FusedOptions,
) -> Result<Option<Tensor>> {
    let conv = problem.conv.as_conv3d();
    let way_for = |pool| Way::new(&conv, pool, x, parameters.filters, options);
    let windows = windows_side_by_side(&problem.max_pool);
    let pooled = match windows {
        Some(_) => way_for(windows)?,
        None => None,
    };
    let output = problem.output_shape();
    let is_pooled = pooled.is_some();
    let (way, convolved) = match pooled {
        Some(way) => (way, output),
        None => match way_for(None)? {
            Some(way) => (way, problem.conv_shape()),
            None => return Ok(None),
        },
    };
    let convolved = way.convolve(arena, x, parameters, options, &convolved)?;
    let norm = problem.group_norm.geometry()?;
    let (y, partials, norm) = convolved.statistics(arena, norm)?;
    let after = pooling::Parameters {
        weight: parameters.norm_weight,
        bias: parameters.norm_bias,
        scale: parameters.factors,
    };
    let bounds = problem.clamp.kernel_bounds();
    let y = if is_pooled {
        normalise_and_clamp(arena, &y, &partials, &after, norm, bounds)
    } else {
        let pool = problem.max_pool.geometry()?;
        normalise_and_pool(arena, &y, &partials, &after, norm, pool, &output, bounds)
    };
    y.map(Some)
}

/// `channel_max(clamp(instance_norm(conv3d(x) * m)) * m)`, or nothing where the convolution cannot be done so.
pub(crate) fn conv3d_multiply_instance_norm_clamp_multiply_max_any_shape_in(
    arena: &mut Arena,
    x: &Tensor,
    parameters: &Parameters<'_>,
    problem: &Conv3dMultiplyInstanceNormClampMultiplyMaxProblem,
    options: FusedOptions,
) -> Result<Option<Tensor>> {
    let Some(way) = Way::new(&problem.conv, None, x, parameters.filters, options)? else {
        return Ok(None);
    };
    let output = problem.conv_shape();
    let convolved = way.convolve(arena, x, parameters, options, &output)?;
    let norm = problem.instance_norm.geometry()?;
    let (y, partials, norm) = convolved.statistics(arena, norm)?;
    let after = reducing::Parameters {
        weight: parameters.norm_weight,
        bias: parameters.norm_bias,
        multiplier: parameters.factors,
    };
    let geometry = problem.channel_max.geometry()?;
    let bounds = problem.clamp.kernel_bounds();
    normalise_and_reduce(arena, &y, &partials, &after, norm, geometry, bounds).map(Some)
}
