//! Convolutions of channels-last tensors with few filters, by a kernel on FMA units.

use kernels_gpu::conv::CONV_DIRECT_NHWC;
use launch_config::conv_nhwc::ConvNhwcGeometry;
use op_spec::Layout;

use super::super::launching::compute;
use super::Filters;
use crate::device::Order;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};

/// Appends the convolution of `x`, which is dense NHWC, to a dense NHWC output of the shape `output`.
///
/// `geometry` was made for the shapes of `x` and of the filters, and for their order.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    Filters { weight, bias }: Filters,
    geometry: &ConvNhwcGeometry,
    output: &[usize],
) -> Result<Value> {
    let order = Order::of_layout(output, Layout::Nhwc)?;
    let y = program.tensor_as(output, program.dtype(x), order)?;
    let (label, shape) = (program.label(x), geometry.shape());
    let arguments = (x, weight, bias, y, *geometry);
    // SAFETY: `x` and `y` are dense NHWC, and all values have the shapes that the geometry was made from; the
    // bias is present if the geometry says so; `geometry()` refused planes of 2^31 elements.
    unsafe { compute(program, &CONV_DIRECT_NHWC, &label, shape, y, arguments) }
}
