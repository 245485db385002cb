//! The whole of pipeline 79 in one launch.

use kernels_gpu::fused::conv3d_multiply_instance_norm_clamp_multiply_max::{
    CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX,
    CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX_WGMMA,
};

use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::ops::launching::{Affine, Argument, bytes, launch};
use crate::ops::{Arena, FusedOptions, Precision};
use crate::spec::Conv3dMultiplyInstanceNormClampMultiplyMaxProblem as Problem;
use crate::spec::launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    FusedGeometry, PAIR_PLANES, SPLIT_PLANES, warpgroup,
};

const OPERATOR: &str = "conv3d_multiply_instance_norm_clamp_multiply_max";

/// `channel_max(clamp(instance_norm(conv3d(x) * m)) * m)` in one launch, or nothing where the kernel cannot take the
/// problem, the device lacks the shared memory for it, or the batch may matter and is too small to fill a device without clusters.
///
/// `problem` is that of `x`, `weight`, `bias` and `multiplier`.
pub(crate) fn conv3d_multiply_instance_norm_clamp_multiply_max_in(
    arena: &mut Arena,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    multiplier: &Tensor,
    problem: &Problem,
    options: FusedOptions,
) -> Result<Option<Tensor>> {
    let stream = x.stream();
    let rounded = x.dtype() == DType::F32 && options.precision == Precision::Fast;
    let planes = if x.dtype() == DType::F32 && !rounded {
        SPLIT_PLANES
    } else {
        PAIR_PLANES
    };
    let Some(geometry) = FusedGeometry::new(problem) else {
        return Ok(None);
    };
    let multiprocessors = stream.device().multiprocessors();
    let on_hopper = stream.device().has_warpgroup_products();
    // Where blocks can share a sample, no batch is too small.
    let small = !on_hopper && !geometry.fills_enough(planes, multiprocessors);
    if small && !options.batch_invariant {
        return Ok(None);
    }
    let on_warpgroups = x.dtype() != DType::F32 && on_hopper;
    // However many blocks share a sample, its results are the same bits.
    let (blocks, shape) = if on_warpgroups {
        let blocks = warpgroup::blocks(&geometry, multiprocessors);
        (blocks, warpgroup::shape(&geometry, blocks))
    } else {
        let blocks = if on_hopper {
            geometry.cluster_blocks(multiprocessors)
        } else {
            1
        };
        (blocks, geometry.shape(planes, blocks))
    };
    let Some(shape) = shape else {
        return Ok(None);
    };
    if shape.shared_bytes > stream.device().shared_bytes_per_block() {
        return Ok(None);
    }
    let y = arena.tensor(stream, &problem.output_shape(), x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    let parameters = Affine::open(OPERATOR, x, Some(weight), bias)?;
    let factors = Argument::open(OPERATOR, "multiplier", multiplier, x)?;
    let format = options.precision.label(x.dtype());
    let (family, labels) = if on_warpgroups {
        let blocks = if blocks == 1 { "alone" } else { "cluster" };
        (
            &CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX_WGMMA,
            [blocks.into(), format],
        )
    } else {
        (
            &CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX,
            [blocks.into(), format],
        )
    };
    // SAFETY: the geometry is that of all these tensors, which start on 16 bytes; there is a bias where it says so; `y`
    // is fresh; the grid has as many blocks for each sample as the kernel has in a cluster.
    unsafe {
        launch(
            stream,
            family,
            &labels,
            shape,
            (
                input.pointer(),
                parameters.weight(),
                parameters.bias(),
                factors.pointer(),
                y.output(),
                geometry,
            ),
        )?;
    }
    stream.moved(bytes(&[x, multiplier, &y]) + parameters.bytes());
    Ok(Some(y))
}
