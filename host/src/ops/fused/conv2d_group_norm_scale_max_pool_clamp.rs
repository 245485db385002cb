//! The whole of pipeline 85 in one launch, after one that prepares its parameters.

use kernels_gpu::fused::conv2d_group_norm_scale_max_pool_clamp::{
    CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_PREPARE, CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA,
    CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA_SPREAD,
};

use super::convolved::Parameters;
use super::forms::PoolingForm;
use super::preparation::Preparation;
use crate::device::{DType, DeviceProperties, LaunchShape, Tensor};
use crate::error::Result;
use crate::ops::Precision;
use crate::program::{ProgramBuilder, Value};
use crate::spec::launch::Refusal;
use crate::spec::launch::conv2d_group_norm_scale_max_pool_clamp::{
    CHANNEL_FLOATS, OneLaunch2dConfig, OneLaunch2dGeometry,
};

const OPERATOR: &str = "conv2d_group_norm_scale_max_pool_clamp";

/// How the one launch is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneLaunch2d {
    geometry: OneLaunch2dGeometry,
    config: OneLaunch2dConfig,
    precision: Precision,
    shape: LaunchShape,
}

impl OneLaunch2d {
    /// The launch for this problem on this device.
    ///
    /// The kernels use clusters and warpgroup products, which only Hopper and the emulator have. Since a small batch is
    /// spread over more blocks, no other kernels are faster for it.
    ///
    /// # Errors
    /// What the kernels cannot take.
    pub(crate) fn choose(
        problem: &PoolingForm,
        dtype: DType,
        properties: &DeviceProperties,
        precision: Precision,
    ) -> Result<Self, Refusal> {
        if !properties.has_warpgroup_products {
            return Err(Refusal::Needs("warpgroup products"));
        }
        let geometry =
            OneLaunch2dGeometry::new(&problem.conv, &problem.norm, &problem.pool, &problem.clamp)?;
        let multiprocessors = properties.multiprocessors;
        let config = geometry.spread(config(dtype, precision), multiprocessors);
        Ok(Self {
            geometry,
            config,
            precision,
            shape: geometry.launch_shape(config, multiprocessors),
        })
    }
}

/// The way to multiply.
fn config(dtype: DType, precision: Precision) -> OneLaunch2dConfig {
    match (dtype, precision) {
        (DType::F32, Precision::Accurate) => OneLaunch2dConfig::SPLIT,
        (DType::F32, Precision::Fast) => OneLaunch2dConfig::ROUNDED,
        (DType::F16 | DType::BF16, _) => OneLaunch2dConfig::STORED,
    }
}

/// The parameters as the kernel takes them, on the stream of the filters: 32-bit words, the filters as operands of the
/// tensor cores, and four numbers for each channel.
fn prepare(
    of: &ProgramBuilder,
    parameters: &Parameters<'_>,
    choice: &OneLaunch2d,
) -> Result<Vec<Tensor>> {
    let OneLaunch2d {
        geometry,
        precision,
        ..
    } = *choice;
    let filter = of.known(parameters.filters.weight);
    let dtype = filter.dtype();
    let mut program = ProgramBuilder::new(filter.device());
    let weight = program.parameter(filter);
    let bias = parameters.filters.bias.map(|bias| of.known(bias));
    let bias = program.optional_parameter(bias);
    let norm = parameters.norm.known(of, &mut program);
    let scale = program.parameter(of.known(parameters.factors));
    let words = config(dtype, precision).operand_words() as usize;
    let operands = program.tensor(&[words], DType::F32)?;
    let channels = program.tensor(&[CHANNEL_FLOATS as usize], DType::F32)?;
    let arguments = (
        weight,
        bias,
        norm.weight,
        norm.bias,
        scale,
        operands,
        channels,
        geometry,
    );
    let labels = [precision.label(dtype)];
    let kernel = CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_PREPARE.instance(&labels)?;
    // SAFETY: the geometry is that of these parameters, which exist where it says so; the two outputs have the sizes
    // that the kernel's config asks for.
    unsafe { program.launch_moving(kernel, geometry.prepare_shape(), arguments, 0) }
    let program = program.finish(&[operands, channels]);
    program.run_once(OPERATOR, filter.stream(), &[])
}

/// Appends `clamp(max_pool2d(group_norm(conv2d(x)) * scale))` in one launch, as `choice` says for `problem`, which is
/// that of `x` and of the parameters.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    problem: &PoolingForm,
    choice: &OneLaunch2d,
) -> Result<Value> {
    let &OneLaunch2d {
        geometry,
        config,
        precision,
        shape,
    } = choice;
    let dtype = program.dtype(x);
    let y = program.tensor(&problem.output, dtype)?;
    let preparation = Preparation::OneLaunch(precision);
    let prepared = parameters
        .preparations
        .get((parameters.layer, preparation), || {
            prepare(program, parameters, choice)
        })?;
    let [operands, channels] = [0, 1].map(|index| program.parameter(&prepared[index]));
    let arguments = (x, operands, channels, y, geometry);
    let family = if config.blocks_per_half == 1 {
        &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA
    } else {
        &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA_SPREAD
    };
    let kernel = family.instance(&[precision.label(dtype)])?;
    // SAFETY: the geometry is that of `x`, whose output shape `y` has; the parameters were prepared for it.
    unsafe { program.launch(kernel, shape, arguments) }
    Ok(y)
}
