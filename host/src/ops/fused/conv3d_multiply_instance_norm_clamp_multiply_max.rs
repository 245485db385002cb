//! The whole of pipeline 79 in one launch.

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
/// problem, the device lacks the shared memory for it, or the batch may matter and is too small to fill the device.
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
    if !options.batch_invariant && !geometry.fills_enough(planes, multiprocessors) {
        return Ok(None);
    }
    let on_warpgroups = x.dtype() != DType::F32 && stream.device().has_warpgroup_products();
    let shape = if on_warpgroups {
        warpgroup::shape(&geometry)
    } else {
        geometry.shape(planes)
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
    // SAFETY: the geometry is that of all these tensors, which start on 16 bytes; there is a bias where it says so; `y`
    // is fresh.
    unsafe {
        if rounded {
            launch!(stream, x.dtype(), shape, fused::conv3d_multiply_instance_norm_clamp_multiply_max::{
                conv3d_multiply_instance_norm_clamp_multiply_max_rounded_f32,
                conv3d_multiply_instance_norm_clamp_multiply_max_f16,
                conv3d_multiply_instance_norm_clamp_multiply_max_bf16
            }(
                input.pointer(), parameters.weight(), parameters.bias(), factors.pointer(), y.output(), geometry,
            ))?;
        } else if on_warpgroups {
            launch!(stream, x.dtype(), shape, fused::conv3d_multiply_instance_norm_clamp_multiply_max::{
                conv3d_multiply_instance_norm_clamp_multiply_max_split_f32,
                conv3d_multiply_instance_norm_clamp_multiply_max_wgmma_f16,
                conv3d_multiply_instance_norm_clamp_multiply_max_wgmma_bf16
            }(
                input.pointer(), parameters.weight(), parameters.bias(), factors.pointer(), y.output(), geometry,
            ))?;
        } else {
            launch!(stream, x.dtype(), shape, fused::conv3d_multiply_instance_norm_clamp_multiply_max::{
                conv3d_multiply_instance_norm_clamp_multiply_max_split_f32,
                conv3d_multiply_instance_norm_clamp_multiply_max_f16,
                conv3d_multiply_instance_norm_clamp_multiply_max_bf16
            }(
                input.pointer(), parameters.weight(), parameters.bias(), factors.pointer(), y.output(), geometry,
            ))?;
        }
    }
    stream.moved(bytes(&[x, multiplier, &y]) + parameters.bytes());
    Ok(Some(y))
}
