//! KernelBench problem 79 in one launch.

use std::fmt;

use kernels_gpu::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX,
    CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX_WGMMA,
};

use crate::device::{DType, DeviceProperties, LaunchShape};
use crate::error::Result;
use crate::operators::ConvolutionParameters as Parameters;
use crate::operators::conv::Filters;
use crate::operators::launching::compute;
use crate::operators::{FusedOptions, Precision};
use crate::program::{ProgramBuilder, Value};
use crate::spec::Quantity;
use crate::spec::{ClampProblem, ConvProblem, GroupNormProblem};
use launch_config::Refusal;
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    OneLaunch3dGeometry, PAIR_PLANES, SPLIT_PLANES, warpgroup,
};

/// The configuration of the launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneLaunch3d {
    geometry: OneLaunch3dGeometry,
    precision: Precision,
    on_warpgroups: bool,
    /// The number of blocks that share a sample. The results have the same bits for any number.
    blocks: u32,
    shape: LaunchShape,
    /// Whether the batch has enough samples, with one block each, that this kernel is the fastest.
    pub(crate) fills: bool,
}

impl OneLaunch3d {
    /// Chooses the launch for this problem on this device.
    ///
    /// # Errors
    /// A problem that the kernel does not support; too little shared memory.
    pub(crate) fn choose(
        (conv, norm, clamp): (&ConvProblem<3>, &GroupNormProblem, &ClampProblem),
        dtype: DType,
        properties: &DeviceProperties,
        options: FusedOptions,
    ) -> Result<Self, Refusal> {
        let planes = [SPLIT_PLANES, PAIR_PLANES, PAIR_PLANES];
        let planes = options.precision.pick(dtype, planes);
        let geometry = OneLaunch3dGeometry::new(conv, norm, clamp)?;
        let multiprocessors = properties.multiprocessors;
        let has_clusters = properties.arch.has_clusters();
        let on_warpgroups = dtype != DType::F32 && properties.arch.has_warpgroup_mma();
        let (blocks, shape) = if on_warpgroups {
            let blocks = warpgroup::blocks(&geometry, multiprocessors);
            (blocks, warpgroup::shape(&geometry, blocks))
        } else {
            let blocks = if has_clusters {
                geometry.cluster_blocks(multiprocessors)
            } else {
                1
            };
            (blocks, geometry.shape(planes, blocks))
        };
        let shape = shape.ok_or(Refusal::Needs("a grid of no more than 2^31 - 1 blocks"))?;
        let bytes = Quantity::scalar("shared memory");
        let limit = properties.shared_bytes_per_block as usize;
        Refusal::unless_at_most(bytes, shape.shared_bytes as usize, limit)?;
        // If blocks can share a sample, no batch is too small.
        let fills = has_clusters || geometry.fills_enough(planes, multiprocessors);
        Ok(Self {
            fills,
            geometry,
            precision: options.precision,
            on_warpgroups,
            blocks,
            shape,
        })
    }
}

/// Formats the configuration.
impl fmt::Display for OneLaunch3d {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.on_warpgroups {
            true => "warpgroup MMA",
            false => "MMA of warps",
        };
        write!(f, "{unit}, {} blocks for each sample", self.blocks)
    }
}

/// Appends `max(clamp(instance_norm(conv3d(x) * m)) * m, dim=1)` in one launch. `choice` was made for the
/// problem of `x` and the parameters, whose output has the shape `output`.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    output: &[usize],
    choice: &OneLaunch3d,
) -> Result<Value> {
    let geometry = choice.geometry;
    let y = program.tensor(output, program.dtype(x))?;
    let Filters { weight, bias } = parameters.filters;
    let arguments = (x, weight, bias, parameters.factors, y, geometry);
    let (format, shape) = (choice.precision.label(program.dtype(x)), Some(choice.shape));
    let family = match choice.on_warpgroups {
        true => &CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX_WGMMA,
        false => &CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX,
    };
    let blocks = match (choice.on_warpgroups, choice.blocks) {
        (false, blocks) => blocks.into(),
        (true, 1) => "alone".into(),
        (true, _) => "cluster".into(),
    };
    // SAFETY: the geometry was made for all these values; there is a bias if it says so; the grid has as many
    // blocks for each sample as the kernel has in a cluster.
    unsafe { compute(program, family, &[blocks, format], shape, y, arguments) }
}
