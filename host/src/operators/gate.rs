//! Products with one factor for each channel, or each position, of each sample.

use kernels_gpu::gate::GATE_NHWC;
use launch_config::gate::GateGeometry;
use op_spec::Layout;

use super::launching::compute;
use super::scale;
use crate::device::Order;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{ChannelShape, GateProblem, ScaleProblem};

/// Returns the gate as a product with one factor per plane. Planes are those of a dense tensor, or, for a
/// gate of positions in a channels-last tensor, the channels of each position.
fn of_planes(problem: &GateProblem) -> ScaleProblem {
    let ChannelShape { n, c, spatial } = problem.shape;
    let [planes, spatial] = match problem.of_positions {
        false => [n * c, spatial],
        true => [n * spatial, c],
    };
    ScaleProblem::new(ChannelShape {
        n: 1,
        c: planes,
        spatial,
    })
}

/// Appends the product of `x` and a dense gate: for channels of channels-last tensors if there is a geometry,
/// else for planes. The result has the layout of `x`.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    gate: Value,
    problem: &GateProblem,
    nhwc: Option<&GateGeometry>,
) -> Result<Value> {
    let Some(geometry) = nhwc else {
        return scale::append(program, x, gate, &of_planes(problem));
    };
    let shape = program.shape(x).to_vec();
    let order = Order::of_layout(&shape, Layout::Nhwc)?;
    let y = program.tensor_as(&shape, program.dtype(x), order)?;
    let (label, shape) = (program.label(x), geometry.shape());
    let arguments = (x, gate, y, *geometry);
    // SAFETY: `x` and `y` have the problem's shape with channels last, and `gate` has a value for each sample
    // and channel.
    unsafe { compute(program, &GATE_NHWC, &label, shape, y, arguments) }
}
