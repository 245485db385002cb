//! A depthwise convolution, on FMA, with the moments that a norm wants.

use super::convolved::{Convolved, Parameters};
use crate::device::DType;
use crate::error::Result;
use crate::ops::conv::Filters;
use crate::ops::launching::{grid, launch};
use crate::program::{ProgramBuilder, Read, Value, Write};
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

/// Appends the convolution of `x`; its output has the shape `output`.
///
/// `geometry` is what [`stencil_geometry`] gave for the shapes of `x` and of the parameters.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    geometry: &StencilGeometry,
    output: &[usize],
) -> Result<Convolved> {
    let (shape, dtype) = (grid(OPERATOR, geometry.shape())?, program.dtype(x));
    let y = program.tensor(output, dtype)?;
    let moments = program.tensor(&[geometry.moment_elements() as usize], DType::F32)?;
    let Filters { weight, bias } = parameters.filters;
    let bytes_moved = program.bytes(&[x, y, moments]) + parameters.filters.bytes(program);
    // SAFETY: `x` and the filters have the shapes that the geometry was made from; bias, norm weight and scale have an
    // element for each channel where they exist; `y` has an element for each output or window, `moments` the geometry's
    // size.
    unsafe {
        launch!(program, dtype, shape, bytes_moved, fused::stencil::{stencil_f32, stencil_f16, stencil_bf16}(
            Read(x), Read(weight), bias.map(Read), parameters.norm.weight(), Read(parameters.factors), Write(y),
            Write(moments), *geometry,
        ));
    }
    Ok(Convolved {
        y,
        moments,
        parts: geometry.plane_blocks,
    })
}
