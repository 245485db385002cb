//! Both pipelines on any shape: a convolution that leaves the norm's statistics, then one kernel for all that follows.

use super::convolved::{Convolved, Parameters};
use super::group_norm_scale_clamp::normalise_and_clamp;
use super::group_norm_scale_max_pool2d_clamp::normalise_and_pool;
use super::multiply_instance_norm_clamp_multiply_channel_max::normalise_and_reduce;
use super::{implicit_gemm, stencil};
use crate::device::{DType, DeviceProperties};
use crate::error::Result;
use crate::ops::{FusedOptions, Precision};
use crate::program::{ProgramBuilder, Value};
use crate::spec::launch::implicit_gemm::GemmPlan;
use crate::spec::launch::stencil::StencilGeometry;
use crate::spec::{
    Conv2dGroupNormScaleMaxPoolClampProblem, Conv3dMultiplyInstanceNormClampMultiplyMaxProblem,
    ConvProblem, MaxPool2dProblem,
};

/// A convolution that leaves the norm's statistics.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StatisticsConvolution {
    /// On tensor cores.
    Gemm(GemmPlan, Precision),
    /// On FMA, of one channel to a group.
    Stencil(StencilGeometry),
}

impl StatisticsConvolution {
    /// The one for this problem, with outputs pooled in windows of `pool` that lie side by side; nothing where it cannot
    /// be done so.
    pub(crate) fn choose(
        problem: &ConvProblem<3>,
        pool: Option<[u32; 2]>,
        dtype: DType,
        properties: &DeviceProperties,
        options: FusedOptions,
    ) -> Result<Option<Self>> {
        let geometry = problem.geometry()?;
        Ok(if StencilGeometry::check(&geometry).is_ok() {
            stencil::stencil_geometry(&geometry, pool).map(Self::Stencil)
        } else if GemmPlan::pays(&geometry) {
            implicit_gemm::gemm_plan(&geometry, pool, dtype, properties, options)
                .map(|plan| Self::Gemm(plan, options.precision))
        } else {
            None
        })
    }

    /// Appends the convolution of `x`; its output has the shape `output`.
    fn append(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
        parameters: &Parameters<'_>,
        output: &[usize],
    ) -> Result<Convolved> {
        match self {
            Self::Gemm(plan, precision) => {
                implicit_gemm::append(program, x, parameters, plan, *precision, output)
            }
            Self::Stencil(geometry) => stencil::append(program, x, parameters, geometry, output),
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

/// How pipeline 85 is done on any shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolingChoice {
    convolution: StatisticsConvolution,
    /// Whether the convolution keeps of each window the value that norm and scale make the largest. Norm and scale are
    /// monotonic, so it is the one that pooling takes. The convolution's output is then never written.
    is_pooled: bool,
}

impl PoolingChoice {
    /// Where windows lie side by side, a convolution that pools them if there is one; nothing where the convolution
    /// cannot be done so.
    pub(crate) fn choose(
        problem: &Conv2dGroupNormScaleMaxPoolClampProblem,
        dtype: DType,
        properties: &DeviceProperties,
        options: FusedOptions,
    ) -> Result<Option<Self>> {
        let conv = problem.conv.as_conv3d();
        let windows = windows_side_by_side(&problem.max_pool);
        for pool in [windows, None] {
            let chosen = StatisticsConvolution::choose(&conv, pool, dtype, properties, options)?;
            if let Some(convolution) = chosen {
                let is_pooled = pool.is_some();
                return Ok(Some(Self {
                    convolution,
                    is_pooled,
                }));
            }
        }
        Ok(None)
    }
}

/// Appends `clamp(max_pool2d(group_norm(conv2d(x)) * scale))`, done as `choice` says for this problem.
pub(crate) fn append_pooling(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    problem: &Conv2dGroupNormScaleMaxPoolClampProblem,
    choice: &PoolingChoice,
) -> Result<Value> {
    let PoolingChoice {
        convolution,
        is_pooled,
    } = choice;
    let output = problem.output_shape();
    let convolved = if *is_pooled {
        output
    } else {
        problem.conv_shape()
    };
    let convolved = convolution.append(program, x, parameters, &convolved)?;
    let statistics = convolved.statistics(program, problem.group_norm.geometry()?)?;
    let (y, scale) = (convolved.y, parameters.factors);
    let bounds = problem.clamp.kernel_bounds();
    if *is_pooled {
        return normalise_and_clamp(program, y, &statistics, parameters.norm, scale, bounds);
    }
    let pool = problem.max_pool.geometry()?;
    normalise_and_pool(
        program,
        y,
        &statistics,
        parameters.norm,
        scale,
        pool,
        &output,
        bounds,
    )
}

/// Appends `channel_max(clamp(instance_norm(conv3d(x) * m)) * m)`, with the convolution that was chosen for this
/// problem.
pub(crate) fn append_reducing(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    problem: &Conv3dMultiplyInstanceNormClampMultiplyMaxProblem,
    convolution: &StatisticsConvolution,
) -> Result<Value> {
    let convolved = convolution.append(program, x, parameters, &problem.conv_shape())?;
    let statistics = convolved.statistics(program, problem.instance_norm.geometry()?)?;
    normalise_and_reduce(
        program,
        convolved.y,
        &statistics,
        parameters.norm,
        parameters.factors,
        problem.channel_max.geometry()?,
        problem.clamp.kernel_bounds(),
    )
}
