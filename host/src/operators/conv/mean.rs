//! Means and sums of a convolution's results over all positions, by the sums of inputs at each tap.

use kernels_gpu::conv::{CONV_MEAN, CONV_TAP_SUMS};
use launch_config::conv_mean::{ConvMeanGeometry, TapSumsGeometry};

use super::super::launching::compute;
use super::Filters;
use crate::device::DType;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};

/// The launches of a convolution and a mean, or a sum, of its results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConvMean {
    pub(crate) sums: TapSumsGeometry,
    pub(crate) mean: ConvMeanGeometry,
}

impl ConvMean {
    /// Appends the launches for `x`, a dense NCHW tensor, with an output of the shape `output`.
    ///
    /// The geometries were made for the shapes of `x` and of the filters.
    pub(crate) fn append(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
        Filters { weight, bias }: Filters,
        output: &[usize],
    ) -> Result<Value> {
        let elements = [self.sums.planes as usize, self.sums.all_taps() as usize];
        let sums = program.tensor(&elements, DType::F32)?;
        let y = program.tensor(output, program.dtype(x))?;
        let label = [DType::F32.label()];
        // SAFETY: all values have the shapes that the geometries were made from; the bias is present if the
        // geometry says so.
        unsafe {
            let arguments = (x, sums, self.sums);
            program.launch(&CONV_TAP_SUMS, &label, self.sums.shape(), arguments)?;
            let arguments = (sums, weight, bias, y, self.mean);
            compute(program, &CONV_MEAN, &label, self.mean.shape(), y, arguments)
        }
    }
}
