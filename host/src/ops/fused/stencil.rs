//! A depthwise convolution, on FMA, with the moments that a norm wants.

use kernels_gpu::fused::stencil::STENCIL;

use super::convolved::{Convolved, Parameters};
use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::ops::Arena;
use crate::ops::launching::{Affine, Argument, bytes, grid, launch};
use crate::spec::launch::conv::ConvGeometry;
use crate::spec::launch::stencil::StencilGeometry;

const OPERATOR: &str = "stencil";

/// How this convolution is done, with its outputs pooled in windows of `pool` that lie side by side; nothing where it has
/// to be done otherwise.
pub(crate) fn stencil_geometry(
    conv: &ConvGeometry,
    pool: Option<[u32; 2]>,
) -> Option<StencilGeometry> {
    StencilGeometry::new(conv, pool).filter(|geometry| geometry.shape().is_some())
}

/// The convolution of `x`; its output has the shape `output`.
///
/// `geometry` is what [`stencil_geometry`] gave for the shapes of `x` and of the parameters.
pub(crate) fn convolve(
    arena: &mut Arena,
    x: &Tensor,
    parameters: &Parameters<'_>,
    geometry: &StencilGeometry,
    output: &[usize],
) -> Result<Convolved> {
    let (stream, g) = (x.stream(), geometry);
    let shape = grid(OPERATOR, g.shape())?;
    let y = arena.tensor(stream, output, x.dtype())?;
    let moments = arena.tensor(stream, &[g.moment_elements() as usize], DType::F32)?;
    let input = Argument::input(OPERATOR, x)?;
    let convolution = Affine::open(OPERATOR, x, Some(parameters.weight), parameters.bias)?;
    let order = Affine::open(
        OPERATOR,
        x,
        parameters.norm_weight,
        Some(parameters.factors),
    )?;
    // SAFETY: `x` and the filters have the shapes that the geometry was made from; bias, norm weight and scale have an
    // element for each channel where they exist; `y` has an element for each output or window, `moments` the geometry's size,
    // and both are fresh and start on 16 bytes.
    unsafe {
        launch(
            stream,
            &STENCIL,
            &[x.dtype().label()],
            shape,
            (
                input.pointer(),
                convolution.weight(),
                convolution.bias(),
                order.weight(),
                order.bias(),
                y.output(),
                moments.output(),
                *g,
            ),
        )?;
    }
    stream.moved(bytes(&[x, &y, &moments]) + convolution.bytes());
    Ok(Convolved {
        y,
        moments,
        parts: g.plane_blocks,
    })
}
