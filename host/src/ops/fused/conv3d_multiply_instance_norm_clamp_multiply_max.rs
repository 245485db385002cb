//! The whole of pipeline 79 in one launch.

use kernels_gpu::fused::conv3d_multiply_instance_norm_clamp_multiply_max as kernels;

use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::ops::launching::{Affine, Argument, bytes};
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
    macro_rules! run {
        ($kernel:ident) => {
            stream.launch::<kernels::$kernel>(
                shape,
                (
                    input.pointer(),
                    parameters.weight(),
                    parameters.bias(),
                    factors.pointer(),
                    y.output(),
                    geometry,
                ),
            )
        };
    }
    // SAFETY: the geometry is that of all these tensors, which start on 16 bytes; there is a bias where it says so; `y`
    // is fresh; the grid has as many blocks for each sample as the kernel has in a cluster.
    unsafe {
        match (x.dtype(), blocks) {
            _ if shape.is_empty() => Ok(()),
            (DType::F32, 2) if rounded => {
                run!(conv3d_multiply_instance_norm_clamp_multiply_max_rounded_2_f32)
            }
            (DType::F32, 4) if rounded => {
                run!(conv3d_multiply_instance_norm_clamp_multiply_max_rounded_4_f32)
            }
            (DType::F32, 8) if rounded => {
                run!(conv3d_multiply_instance_norm_clamp_multiply_max_rounded_8_f32)
            }
            (DType::F32, _) if rounded => {
                run!(conv3d_multiply_instance_norm_clamp_multiply_max_rounded_f32)
            }
            (DType::F32, 2) => run!(conv3d_multiply_instance_norm_clamp_multiply_max_split_2_f32),
            (DType::F32, 4) => run!(conv3d_multiply_instance_norm_clamp_multiply_max_split_4_f32),
            (DType::F32, 8) => run!(conv3d_multiply_instance_norm_clamp_multiply_max_split_8_f32),
            (DType::F32, _) => run!(conv3d_multiply_instance_norm_clamp_multiply_max_split_f32),
            (DType::F16, warpgroup::CLUSTER_BLOCKS) => {
                run!(conv3d_multiply_instance_norm_clamp_multiply_max_wgmma_cluster_f16)
            }
            (DType::F16, _) if on_warpgroups => {
                run!(conv3d_multiply_instance_norm_clamp_multiply_max_wgmma_f16)
            }
            (DType::F16, _) => run!(conv3d_multiply_instance_norm_clamp_multiply_max_f16),
            (DType::BF16, warpgroup::CLUSTER_BLOCKS) => {
                run!(conv3d_multiply_instance_norm_clamp_multiply_max_wgmma_cluster_bf16)
            }
            (DType::BF16, _) if on_warpgroups => {
                run!(conv3d_multiply_instance_norm_clamp_multiply_max_wgmma_bf16)
            }
            (DType::BF16, _) => run!(conv3d_multiply_instance_norm_clamp_multiply_max_bf16),
        }
    }?;
    stream.moved(bytes(&[x, multiplier, &y]) + parameters.bytes());
    Ok(Some(y))
}
