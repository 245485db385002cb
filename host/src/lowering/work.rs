//! Lower bounds for any implementation of layers.

use std::collections::HashSet;

use op_spec::graph::{Graph, GraphProblem, Operand};

use super::region::Query;
use crate::device::DType;
use crate::operators::Precision;

/// The minimal memory traffic and computation of some layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    /// The bytes of inputs from outside, of parameters, and of outputs that others read, each counted once.
    pub(crate) bytes: u64,
    /// The floating-point operations of the convolutions, two for each multiply-add.
    pub(crate) flop: u64,
}

impl Work {
    /// The work of a whole graph.
    pub(crate) fn of_all(graph: &Graph, problem: &GraphProblem, dtype: DType) -> Work {
        let all: Vec<usize> = (0..graph.layers().len()).collect();
        Work::of(graph, problem, dtype, (&all, &problem.outputs))
    }

    /// The work of `layers`, in ascending order. Others read the outputs of the layers `written`.
    pub(crate) fn of(
        graph: &Graph,
        problem: &GraphProblem,
        dtype: DType,
        (layers, written): (&[usize], &[usize]),
    ) -> Work {
        let is_inside = |operand: &Operand| matches!(operand, Operand::Layer(layer) if layers.binary_search(layer).is_ok());
        let operands = layers.iter().flat_map(|&layer| graph.operands(layer));
        let read: HashSet<Operand> = operands.filter(|of| !is_inside(of)).copied().collect();
        let slots = layers.iter().flat_map(|&layer| graph.parameters_of(layer));
        let slots: HashSet<usize> = slots.copied().collect();
        let read = read.into_iter().map(|operand| match operand {
            Operand::Input(0) => problem.input_shape(),
            Operand::Input(further) => &problem.inputs[further - 1].shape,
            Operand::Layer(layer) => &problem.steps[layer].output,
        });
        let parameters = slots
            .into_iter()
            .map(|slot| &graph.parameters()[slot].shape[..]);
        let written = written
            .iter()
            .map(|&layer| &problem.steps[layer].output[..]);
        // Each product fits 64 bits, but the sum may not.
        let elements = |shape: &[usize]| shape.iter().map(|&extent| extent as u64).product::<u64>();
        let values = read.chain(parameters).chain(written).map(elements);
        let values = values.fold(0, u64::saturating_add);
        let multiply_adds = layers
            .iter()
            .map(|&layer| problem.steps[layer].multiply_adds());
        let flop = 2 * multiply_adds.sum::<u128>();
        Work {
            bytes: values.saturating_mul(dtype.size() as u64),
            flop: u64::try_from(flop).unwrap_or(u64::MAX),
        }
    }
}

impl Query<'_> {
    /// Returns a lower bound of the time in seconds, by the device's data sheet, if its rates are known. An
    /// accurate f32 product counts as three products of 16-bit operands.
    pub(crate) fn least_s(&self, work: Work) -> Option<f64> {
        let products = match (self.dtype, self.options.precision) {
            (DType::F32, Precision::Accurate) => 3,
            _ => 1,
        };
        let multiply_adds = (work.flop / 2).saturating_mul(products);
        self.properties.least_s(work.bytes, multiply_adds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use op_spec::graph::Layer;

    #[test]
    fn values_count_once_where_layers_read_and_write_them() {
        let graph = Graph::builder("x", 2)
            .layer("a", "x", Layer::conv2d("conv", 4, 1).bias(false))
            .layer("b", "a", Layer::relu())
            .layer("c", "b", Layer::add("a"))
            .build("c")
            .expect("a graph");
        let problem = graph.problem(&[3, 2, 5, 5]).expect("an input");
        // x has 150 elements, a, b and c have 300, and the filters 8.
        let of = |layers: &[usize]| {
            let written = &layers[layers.len() - 1..];
            Work::of(&graph, &problem, DType::F16, (layers, written))
        };
        let work = |values: u64, flop| Work {
            bytes: 2 * values,
            flop,
        };
        assert_eq!(of(&[0]), work(150 + 8 + 300, 2 * 3 * 25 * 2 * 4));
        assert_eq!(of(&[1, 2]), work(300 + 300, 0));
        assert_eq!(of(&[2]), work(300 + 300 + 300, 0));
        let all = Work::of_all(&graph, &problem, DType::F16);
        assert_eq!(all, of(&[0, 1, 2]));
    }
}
