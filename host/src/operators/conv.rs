//! Convolution in one to three dimensions, by kernels on FMA units.

mod pad;

use cuda_std::Label;
use kernels_gpu::conv::CONV_DIRECT;
use launch_config::KernelGeometry;

pub(crate) use pad::append as append_pad;

use super::launching::kernel;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::ConvProblem;

/// The parameters of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filters {
    pub(crate) weight: Value,
    pub(crate) bias: Option<Value>,
}

impl Filters {
    /// Bytes of both.
    pub(super) fn bytes(self, program: &ProgramBuilder) -> u64 {
        let bias = self.bias.map_or(0, |bias| program.bytes(&[bias]));
        program.bytes(&[self.weight]) + bias
    }
}

/// Appends a convolution of any kind to a program; absent dimensions have extents of 1.
pub(crate) fn append<const D: usize>(
    program: &mut ProgramBuilder,
    x: Value,
    Filters { weight, bias }: Filters,
    problem: &ConvProblem<D>,
) -> Result<Value> {
    let x = pad::append(program, x, problem.pad.as_ref())?;
    let geometry = problem.geometry()?;
    let dtype = program.dtype(x);
    let y = program.tensor(&problem.output_shape(), dtype)?;
    if program.bytes(&[y]) == 0 {
        return Ok(y);
    }
    let tile = geometry.direct_tile();
    // Sequences are images of one row.
    let dimensions = Label::Number((D as u32).max(2));
    let labels = [dimensions, tile.name().into(), dtype.label()];
    let (kernel, shape) = kernel(&CONV_DIRECT, &labels, geometry.direct_shape(tile))?;
    let arguments = (x, weight, bias, y, geometry);
    // SAFETY: the values have the shapes that the geometry was made from; the bias is there if the geometry
    // says so; `geometry()` refused planes of 2^31 elements.
    unsafe { program.launch(kernel, shape, arguments) }
    Ok(y)
}
