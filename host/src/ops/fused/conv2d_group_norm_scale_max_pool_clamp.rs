//! The whole of pipeline 85 in one launch, after one that prepares its parameters.

use kernels_gpu::fused::conv2d_group_norm_scale_max_pool_clamp as kernels;

use crate::device::{DType, Stream, Tensor};
use crate::error::Result;
use crate::ops::launching::{Affine, Argument, bytes};
use crate::ops::{Arena, Precision};
use crate::spec::Conv2dGroupNormScaleMaxPoolClampProblem as Problem;
use crate::spec::launch::conv2d_group_norm_scale_max_pool_clamp::{
    CHANNEL_FLOATS, FusedGeometry, FusedMode,
};

const OPERATOR: &str = "conv2d_group_norm_scale_max_pool_clamp";

/// Whether the kernels take this problem on the stream's device, and as what.
///
/// They are made of what only Hopper and the emulator have, clusters and warpgroup products. Since a small batch is
/// spread over more blocks, no other kernels are faster for it.
pub(crate) fn fused_geometry(problem: &Problem, stream: &Stream) -> Option<FusedGeometry> {
    if !stream.device().has_warpgroup_products() {
        return None;
    }
    FusedGeometry::new(problem)
}

/// The way to multiply.
fn mode(dtype: DType, precision: Precision) -> FusedMode {
    match (dtype, precision) {
        (DType::F32, Precision::Accurate) => FusedMode::ACCURATE,
        (DType::F32, Precision::Fast) => FusedMode::FAST,
        (DType::F16 | DType::BF16, _) => FusedMode::HALF,
    }
}

/// Launches the kernel for a stored type and a precision; stands in an `unsafe` block.
macro_rules! launch_mode {
    ($stream:expr, $dtype:expr, $precision:expr, $shape:expr,
     {$f32:ident, $fast:ident, $f16:ident, $bf16:ident}($($argument:expr),* $(,)?)) => {
        match ($dtype, $precision) {
            (DType::F32, Precision::Accurate) => {
                $stream.launch::<kernels::$f32>($shape, ($($argument,)*))
            }
            (DType::F32, Precision::Fast) => $stream.launch::<kernels::$fast>($shape, ($($argument,)*)),
            (DType::F16, _) => $stream.launch::<kernels::$f16>($shape, ($($argument,)*)),
            (DType::BF16, _) => $stream.launch::<kernels::$bf16>($shape, ($($argument,)*)),
        }
    };
}

/// Parameters in the form that the fused kernel takes them in.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// 32-bit words: filters as operands of the tensor cores.
    operands: Tensor,
    /// Four numbers for each channel.
    channels: Tensor,
}

impl Prepared {
    /// Prepares parameters on their stream.
    pub(crate) fn new(
        weight: &Tensor,
        bias: Option<&Tensor>,
        norm: (Option<&Tensor>, Option<&Tensor>),
        scale: &Tensor,
        geometry: &FusedGeometry,
        precision: Precision,
    ) -> Result<Prepared> {
        let (stream, dtype) = (weight.stream(), weight.dtype());
        let words = mode(dtype, precision).operand_words() as usize;
        let prepared = Prepared {
            operands: Tensor::uninit(stream, &[words], DType::F32)?,
            channels: Tensor::uninit(stream, &[CHANNEL_FLOATS as usize], DType::F32)?,
        };
        let convolution = Affine::open(OPERATOR, weight, Some(weight), bias)?;
        let norm = Affine::open(OPERATOR, weight, norm.0, norm.1)?;
        let factors = Argument::open(OPERATOR, "scale", scale, weight)?;
        // SAFETY: the geometry is that of these parameters, which exist where it says so; the two buffers have the
        // sizes that the kernel's mode asks for and are fresh.
        unsafe {
            launch_mode!(stream, dtype, precision, geometry.prepare_shape(), {
                conv2d_group_norm_scale_max_pool_clamp_prepare_f32,
                conv2d_group_norm_scale_max_pool_clamp_prepare_fast_f32,
                conv2d_group_norm_scale_max_pool_clamp_prepare_f16,
                conv2d_group_norm_scale_max_pool_clamp_prepare_bf16
            }(
                convolution.weight(), convolution.bias(), norm.weight(), norm.bias(), factors.pointer(),
                prepared.operands.output(), prepared.channels.output(), *geometry,
            ))?;
        }
        Ok(prepared)
    }
}

/// `clamp(max_pool2d(group_norm(conv2d(x)) * scale))` in one launch.
///
/// `problem` is that of `x` and of the tensors that `prepared` was made from, `geometry` what [`fused_geometry`] gave
/// for it, and `precision` the one that `prepared` was made for.
pub(crate) fn conv2d_group_norm_scale_max_pool_clamp_in(
    arena: &mut Arena,
    x: &Tensor,
    prepared: &Prepared,
    problem: &Problem,
    geometry: &FusedGeometry,
    precision: Precision,
) -> Result<Tensor> {
    let stream = x.stream();
    let y = arena.tensor(stream, &problem.output_shape(), x.dtype())?;
    let multiprocessors = stream.device().multiprocessors();
    let mode = geometry.spread(mode(x.dtype(), precision), multiprocessors);
    let shape = geometry.launch_shape(mode, multiprocessors);
    if shape.is_empty() {
        return Ok(y);
    }
    let input = Argument::input(OPERATOR, x)?;
    let operands = prepared.operands.read_on(OPERATOR, "operands", stream)?;
    let channels = prepared.channels.read_on(OPERATOR, "channels", stream)?;
    // SAFETY: the geometry is that of `x`, whose output shape `y` has; the parameters were prepared for it; all start on
    // 16 bytes; `y` is fresh.
    unsafe {
        if mode.shares == 1 {
            launch_mode!(stream, x.dtype(), precision, shape, {
                conv2d_group_norm_scale_max_pool_clamp_wgmma_f32,
                conv2d_group_norm_scale_max_pool_clamp_wgmma_fast_f32,
                conv2d_group_norm_scale_max_pool_clamp_wgmma_f16,
                conv2d_group_norm_scale_max_pool_clamp_wgmma_bf16
            }(input.pointer(), operands.pointer(), channels.pointer(), y.output(), *geometry))?;
        } else {
            launch_mode!(stream, x.dtype(), precision, shape, {
                conv2d_group_norm_scale_max_pool_clamp_wgmma_spread_f32,
                conv2d_group_norm_scale_max_pool_clamp_wgmma_spread_fast_f32,
                conv2d_group_norm_scale_max_pool_clamp_wgmma_spread_f16,
                conv2d_group_norm_scale_max_pool_clamp_wgmma_spread_bf16
            }(input.pointer(), operands.pointer(), channels.pointer(), y.output(), *geometry))?;
        }
    }
    stream.moved(bytes(&[x, &prepared.operands, &prepared.channels, &y]));
    Ok(y)
}
