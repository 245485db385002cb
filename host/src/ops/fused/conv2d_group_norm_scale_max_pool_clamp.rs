//! The whole of pipeline 85 in one launch, after one that prepares its parameters.

use kernels_gpu::fused::conv2d_group_norm_scale_max_pool_clamp::{
    CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_PREPARE, CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA,
    CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA_SPREAD,
};

use crate::device::{DType, Stream, Tensor};
use crate::error::Result;
use crate::ops::launching::{Affine, Argument, bytes, launch};
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
            launch(
                stream,
                &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_PREPARE,
                &[precision.label(dtype)],
                geometry.prepare_shape(),
                (
                    convolution.weight(),
                    convolution.bias(),
                    norm.weight(),
                    norm.bias(),
                    factors.pointer(),
                    prepared.operands.output(),
                    prepared.channels.output(),
                    *geometry,
                ),
            )?;
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
    let family = if mode.shares == 1 {
        &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA
    } else {
        &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA_SPREAD
    };
    if shape.is_empty() {
        return Ok(y);
    }
    let input = Argument::input(OPERATOR, x)?;
    let operands = prepared.operands.read_on(OPERATOR, "operands", stream)?;
    let channels = prepared.channels.read_on(OPERATOR, "channels", stream)?;
    // SAFETY: the geometry is that of `x`, whose output shape `y` has; the parameters were prepared for it; all start on
    // 16 bytes; `y` is fresh.
    unsafe {
        launch(
            stream,
            family,
            &[precision.label(x.dtype())],
            shape,
            (
                input.pointer(),
                operands.pointer(),
                channels.pointer(),
                y.output(),
                *geometry,
            ),
        )?;
    }
    stream.moved(bytes(&[x, &prepared.operands, &prepared.channels, &y]));
    Ok(y)
}
