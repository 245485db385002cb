//! The kernels of layers that copy values: parts of rows, or permuted split axes.

use launch_config::copy_rows::{RowsGeometry, RowsOf};
use op_spec::graph::{ByItself, NormalForm, Operand};
use op_spec::{AxisShape, Layout, ShuffleProblem};

use crate::lowering::region::Region;

/// Copies of parts of rows, which together form the region's output: one for each operand of a `cat`, or one
/// for a `narrow`.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct Rows {
    /// The number of the layer.
    pub(in crate::lowering) layer: usize,
    /// The layout of all operands and of the output.
    pub(in crate::lowering) layout: Layout,
    /// A copy for each operand; `None` if the operand's region writes its part.
    pub(in crate::lowering) copies: Vec<Option<RowsGeometry>>,
    /// Shape of the output.
    pub(in crate::lowering) output: Vec<usize>,
}

impl Rows {
    /// The kernels for a form, if it is of this kind.
    pub(in crate::lowering) fn of(region: &Region<'_>, form: &NormalForm) -> Option<Rows> {
        let (layer, by_itself) = form.by_itself?;
        let (shape, dim) = match by_itself {
            ByItself::Cat(problem) => (problem.shape, problem.dim),
            ByItself::Narrow(problem) => (problem.shape, problem.spec.dim),
            ByItself::Reshape(_) | ByItself::Gate(_) | ByItself::Shuffle(_) | ByItself::Pad(_) => {
                return None;
            }
        };
        let layout = match region.is_dense_nhwc() && dim == 1 {
            true => Layout::Nhwc,
            false => Layout::Nchw,
        };
        let (rows, step) = rows_and_step(&shape, layout);
        let part = |start: usize, extent: usize| RowsOf {
            pitch: extent as u64 * step,
            start: start as u64 * step,
        };
        let copies = match by_itself {
            ByItself::Narrow(problem) => {
                let [source, target] = [
                    part(problem.spec.start, shape.extent),
                    part(0, problem.spec.length),
                ];
                vec![Some(RowsGeometry::new(rows, target.pitch, source, target))]
            }
            _ => {
                let mut start = 0;
                let operands = region.of.graph.operands(layer).iter();
                let copies = operands.map(|operand| {
                    let extent = match *operand {
                        Operand::Input(input) => region.of.input_shape(input)[dim],
                        Operand::Layer(layer) => region.output_of(layer)[dim],
                    };
                    let [source, target] = [part(0, extent), part(start, shape.extent)];
                    start += extent;
                    Some(RowsGeometry::new(rows, source.pitch, source, target))
                });
                copies.collect()
            }
        };
        Some(Rows {
            layer,
            layout,
            copies,
            output: region.output_of(layer).to_vec(),
        })
    }
}

/// A shuffle of channels or pixels, in the layout of its input.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct Shuffle {
    pub(in crate::lowering) problem: ShuffleProblem,
    /// The layout of input and output.
    pub(in crate::lowering) layout: Layout,
    /// Shape of the output.
    pub(in crate::lowering) output: Vec<usize>,
}

impl Shuffle {
    /// The kernels for a form, if it is of this kind.
    pub(in crate::lowering) fn of(region: &Region<'_>, form: &NormalForm) -> Option<Shuffle> {
        let (layer, ByItself::Shuffle(problem)) = form.by_itself? else {
            return None;
        };
        let layout = match region.is_dense_nhwc() {
            true => Layout::Nhwc,
            false => Layout::Nchw,
        };
        let output = region.output_of(layer).to_vec();
        Some(Shuffle {
            problem,
            layout,
            output,
        })
    }
}

/// Returns the number of rows of a tensor with this shape around an axis, and the number of adjacent elements
/// with one index of that axis.
fn rows_and_step(shape: &AxisShape, layout: Layout) -> (u64, u64) {
    match layout {
        Layout::Nchw => ((shape.n * shape.outer) as u64, shape.inner as u64),
        // The axis is the channel axis.
        Layout::Nhwc => ((shape.n * shape.inner) as u64, 1),
    }
}
