//! Convolution in one to three dimensions, by kernels on FMA units.

mod mean;
mod nhwc;
mod pad;

use kernels_gpu::conv::CONV_DIRECT;
use launch_config::KernelGeometry;
use launch_config::conv::{ChannelTile, ConvGeometry};

pub(crate) use mean::ConvMean;
pub(crate) use nhwc::append as append_nhwc;

use super::launching::{OwnKernels, Parameters, compute, first};
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
    /// The bytes of weight and bias.
    pub(super) fn bytes(self, program: &ProgramBuilder) -> u64 {
        let bias = self.bias.map_or(0, |bias| program.bytes(&[bias]));
        program.bytes(&[self.weight]) + bias
    }
}

impl<const D: usize> OwnKernels for ConvProblem<D> {
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value> {
        let y = program.tensor(&self.output_shape(), program.dtype(x))?;
        if self.output_shape().contains(&0) {
            return Ok(y);
        }
        let filters = Filters {
            weight: first(given),
            bias: given[1],
        };
        let x = self.padded(program, x)?;
        // Absent dimensions have extents of 1; sequences are images of one row.
        let (geometry, dimensions) = (self.geometry()?, (D as u32).max(2));
        append_direct(program, [x, y], filters, geometry, dimensions)
    }

    fn has_separate_padding(&self) -> bool {
        self.pad.is_some()
    }

    fn padded(&self, program: &mut ProgramBuilder, x: Value) -> Result<Value> {
        pad::append(program, x, self)
    }

    fn direct_tile(&self) -> Option<ChannelTile> {
        Some(self.geometry().ok()?.direct_tile())
    }
}

/// Appends a convolution of volumes, or of images as volumes of depth 1. It has outputs and no separate
/// padding.
pub(super) fn append_volumes(
    program: &mut ProgramBuilder,
    x: Value,
    filters: Filters,
    problem: &ConvProblem<3>,
) -> Result<Value> {
    let geometry = problem.geometry()?;
    let are_images = [geometry.d, geometry.t, geometry.z] == [1; 3] && geometry.pad_d == 0;
    let dimensions = if are_images { 2 } else { 3 };
    let y = program.tensor(&problem.output_shape(), program.dtype(x))?;
    append_direct(program, [x, y], filters, geometry, dimensions)
}

fn append_direct(
    program: &mut ProgramBuilder,
    [x, y]: [Value; 2],
    Filters { weight, bias }: Filters,
    geometry: ConvGeometry,
    dimensions: u32,
) -> Result<Value> {
    let (tile, dtype) = (geometry.direct_tile(), program.dtype(x).label());
    let labels = [dimensions.into(), tile.name().into(), dtype];
    let shape = geometry.direct_shape(tile);
    let arguments = (x, weight, bias, y, geometry);
    // SAFETY: the values have the shapes that the geometry was made from; the bias is present if the geometry
    // says so; `geometry()` refused planes of 2^31 elements.
    unsafe { compute(program, &CONV_DIRECT, &labels, shape, y, arguments) }
}
