//! Shuffles of channels and pixels. Each is one copy that permutes split axes.

use op_spec::Layout;

use crate::device::Order;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::ShuffleProblem;

/// Appends the shuffle of `x`, which is dense in this layout, to an output of this shape and the same layout.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &ShuffleProblem,
    layout: Layout,
    output: &[usize],
) -> Result<Value> {
    let order = Order::of_layout(output, layout)?;
    let seen = seen(problem, layout)?;
    program.copied_as(x, &seen, program.dtype(x), output, order)
}

/// Returns the order of the input, with its axes listed in the memory sequence of the output.
fn seen(problem: &ShuffleProblem, layout: Layout) -> Result<Order> {
    let [input, output] = problem.axes(layout);
    let place = |axis: usize| output.iter().position(|&other| other == axis);
    let places = input.map(|axis| place(axis).expect("both have all axes"));
    Order::of_axes(&output.map(|axis| problem.extents[axis]), &places)
}
