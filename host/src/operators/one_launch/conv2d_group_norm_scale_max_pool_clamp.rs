//! KernelBench problem 85 in one launch, and the launch that prepares its parameters.

use std::fmt;

use kernels_gpu::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_PREPARE, CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA,
    CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA_SPREAD,
};

use crate::device::{DType, DeviceProperties, LaunchShape};
use crate::error::Result;
use crate::operators::ConvolutionParameters as Parameters;
use crate::operators::Precision;
use crate::operators::launching::compute;
use crate::operators::preparation::{Preparation, prepared};
use crate::program::{ProgramBuilder, Value};
use crate::spec::{ClampProblem, ConvProblem, GroupNormProblem, PoolProblem};
use launch_config::Refusal;
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    CHANNEL_FLOATS, OneLaunch2dConfig, OneLaunch2dGeometry,
};

/// The problems of convolution, norm, pool and clamp.
type Problem2d<'a> = (
    &'a ConvProblem<3>,
    &'a GroupNormProblem,
    &'a PoolProblem,
    &'a ClampProblem,
);

/// The configuration of the launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneLaunch2d {
    geometry: OneLaunch2dGeometry,
    config: OneLaunch2dConfig,
    precision: Precision,
    shape: LaunchShape,
}

impl OneLaunch2d {
    /// Chooses the launch for this problem on this device.
    ///
    /// The kernels use clusters and `wgmma`, which only Hopper and the emulator have. A small batch is spread
    /// over more blocks, so this kernel is never slower than others.
    ///
    /// # Errors
    /// A problem or device that the kernels do not support.
    pub(crate) fn choose(
        (conv, norm, pool, clamp): Problem2d<'_>,
        dtype: DType,
        properties: &DeviceProperties,
        precision: Precision,
    ) -> Result<Self, Refusal> {
        let arch = properties.arch;
        if !arch.has_warpgroup_mma() {
            return Err(Refusal::Needs("warpgroup MMA"));
        }
        if !arch.has_clusters() {
            return Err(Refusal::Needs("clusters"));
        }
        let geometry = OneLaunch2dGeometry::new(conv, norm, pool, clamp)?;
        let multiprocessors = properties.multiprocessors;
        let config = geometry.spread(config(dtype, precision), multiprocessors);
        Ok(Self {
            geometry,
            config,
            precision,
            shape: geometry.launch_shape(config, multiprocessors),
        })
    }

    /// Whether several blocks share one half of a sample.
    fn is_spread(&self) -> bool {
        self.config.blocks_per_half != 1
    }
}

/// Formats the configuration.
impl fmt::Display for OneLaunch2d {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OneLaunch2dConfig {
            stages, consumers, ..
        } = self.config;
        let spread = match self.is_spread() {
            true => ", in a block each",
            false => "",
        };
        write!(
            f,
            "{stages} stages, {consumers} consumer warpgroups for each half of a sample{spread}"
        )
    }
}

/// The operand format.
fn config(dtype: DType, precision: Precision) -> OneLaunch2dConfig {
    type Config = OneLaunch2dConfig;
    precision.pick(dtype, [Config::F16X2, Config::SCALED_F16, Config::STORED])
}

/// Returns the prepared parameters: the filters in operand layout, in 32-bit words, and four numbers for each
/// channel.
fn prepare(
    program: &mut ProgramBuilder,
    parameters: &Parameters<'_>,
    choice: &OneLaunch2d,
) -> Result<[Value; 2]> {
    let Parameters { filters, norm, .. } = *parameters;
    let dtype = program.dtype(filters.weight);
    let geometry = OneLaunch2dGeometry {
        affine_type: norm.element_type(program, filters.weight),
        ..choice.geometry
    };
    let of = (parameters.layer, Preparation::OneLaunch(choice.precision));
    let words = config(dtype, choice.precision).operand_words() as usize;
    let (weight, factors) = (Some(filters.weight), parameters.factors);
    let known = [weight, filters.bias, norm.weight, norm.bias, factors];
    let append = |program: &mut ProgramBuilder, known: [Option<Value>; 5]| {
        let operands = program.tensor(&[words], DType::F32)?;
        let channels = program.tensor(&[CHANNEL_FLOATS as usize], DType::F32)?;
        let [weight, bias, gain, shift, factors] = known;
        let arguments = (
            weight, bias, gain, shift, factors, operands, channels, geometry,
        );
        let family = &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_PREPARE;
        let shape = Some(geometry.prepare_shape());
        let label = [choice.precision.label(dtype)];
        // SAFETY: the geometry was made for these parameters, which are present if it says so; the two
        // outputs have the sizes of the kernel's config.
        unsafe { program.launch_moving(family, &label, shape, arguments, 0)? }
        Ok([operands, channels])
    };
    prepared(program, parameters.preparations, of, known, append)
}

/// Appends `clamp(max_pool2d(group_norm(conv2d(x)) * scale))` in one launch. `choice` was made for the
/// problem of `x` and the parameters, whose output has the shape `output`.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    output: &[usize],
    choice: &OneLaunch2d,
) -> Result<Value> {
    let geometry = choice.geometry;
    let y = program.tensor(output, program.dtype(x))?;
    let [operands, channels] = prepare(program, parameters, choice)?;
    let arguments = (x, operands, channels, y, geometry);
    let family = if choice.is_spread() {
        &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA_SPREAD
    } else {
        &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA
    };
    let label = [choice.precision.label(program.dtype(x))];
    let shape = Some(choice.shape);
    // SAFETY: the geometry was made for `x`, and `y` has its output shape; the parameters were prepared for
    // it.
    unsafe { compute(program, family, &label, shape, y, arguments) }
}
