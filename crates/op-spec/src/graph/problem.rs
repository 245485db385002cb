//! A graph for an input of known shape.

use alloc::string::String;
use alloc::vec::Vec;

use super::error::GraphError;
use super::layer::LayerProblem;
use super::{Graph, Operand};
use crate::error::{Quantity, RankRule, SpecError};
use crate::shape::same_shape;

/// A further input of a graph, with its shape.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct GraphInput {
    /// The input's name.
    pub name: String,
    /// The input's shape: mostly that of the first operand of the layers that take it, from which it follows.
    pub shape: Vec<usize>,
}

/// A layer with its shapes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShapedLayer {
    /// The layer's problem.
    pub problem: LayerProblem,
    /// Shape of the first operand. Others have the same shape, except for a concatenation or a gate.
    pub input: Vec<usize>,
    /// Shape of the output.
    pub output: Vec<usize>,
    /// Operands beside the first one.
    pub others: Vec<Operand>,
}

impl ShapedLayer {
    /// Returns the number of multiply-adds of a convolution or a linear map; zero for other layers.
    #[must_use]
    pub fn multiply_adds(&self) -> u128 {
        self.problem.role().multiply_adds()
    }
}

/// A graph whose extents are all known.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GraphProblem {
    /// The layers, at least one. Their shapes always have a batch; an input without one is a batch of one
    /// sample.
    pub steps: Vec<ShapedLayer>,
    /// The inputs beside the first one, in the order of [`Graph::inputs`].
    pub inputs: Vec<GraphInput>,
    /// The layers whose outputs are the graph's outputs, as in [`Graph::outputs`].
    pub outputs: Vec<usize>,
    /// Whether the input and all outputs have a batch.
    pub is_batched: bool,
}

impl GraphProblem {
    pub(super) fn new(graph: &Graph, input: &[usize]) -> Result<GraphProblem, GraphError> {
        let is_batched = !graph.lacks_batch(input);
        let mut first = input.to_vec();
        if !is_batched {
            let mut layers = graph.layers().iter().enumerate();
            if let Some((layer, needing)) = layers.find(|(_, layer)| layer.kind().needs_batch()) {
                let operator = needing.operator();
                let rank = input.len();
                return Err(GraphError::NoBatch {
                    layer,
                    operator,
                    rank,
                });
            }
            first.insert(0, 1);
        }
        let mut steps: Vec<ShapedLayer> = Vec::with_capacity(graph.layers().len());
        let mut further: Vec<Option<Vec<usize>>> = graph.inputs().iter().map(|_| None).collect();
        for (index, layer) in graph.layers().iter().enumerate() {
            let (operand, others) = graph.operands(index).split_first().expect("one at least");
            let (shape, expected) = match *operand {
                Operand::Layer(layer) => (&steps[layer].output, None),
                Operand::Input(_) => (&first, Some(graph.in_channels())),
            };
            let operator = layer.operator();
            let refuse = |source| GraphError::Layer {
                layer: index,
                source,
            };
            let layer = layer.kind();
            // The layer itself refuses an input of another rank, and that error takes precedence over wrong
            // channels.
            let rank = layer.dimensions().map(|dimensions| 2 + dimensions);
            if rank.is_none_or(|rank| rank == shape.len()) {
                check_channels(operator, shape, expected).map_err(refuse)?;
            }
            // The shape of the concatenated operands.
            let mut joint = shape.clone();
            let joined = layer.joined_axis().filter(|&axis| axis < shape.len());
            let made = match joined {
                Some(_) => None,
                None => Some(layer.problem(shape).map_err(refuse)?),
            };
            let wanted = layer.other_shape(shape);
            for other in others {
                let actual = match *other {
                    Operand::Layer(layer) => &steps[layer].output,
                    Operand::Input(0) => &first,
                    Operand::Input(input) => {
                        let known = further[input - 1].get_or_insert_with(|| wanted.clone());
                        if *known != wanted {
                            return Err(GraphError::SharedInput {
                                layer: index,
                                name: graph.inputs()[input - 1].clone(),
                                actual: wanted.clone(),
                                expected: known.clone(),
                            });
                        }
                        &wanted
                    }
                };
                match joined {
                    Some(axis) => join(operator, &mut joint, actual, axis).map_err(refuse)?,
                    None => same_shape(operator, "residual", actual, &wanted).map_err(refuse)?,
                }
            }
            let (problem, output) = match made {
                Some(made) => made,
                None => layer.problem(&joint).map_err(refuse)?,
            };
            let input = shape.clone();
            steps.push(ShapedLayer {
                problem,
                input,
                output,
                others: others.to_vec(),
            });
        }
        let inputs = graph.inputs().iter().zip(further).map(|(name, shape)| {
            let mut shape = shape.expect("a layer takes each input");
            // Further inputs have a batch if the first input has one.
            if !is_batched {
                shape.remove(0);
            }
            GraphInput {
                name: name.clone(),
                shape,
            }
        });
        let inputs = inputs.collect();
        Ok(GraphProblem {
            steps,
            inputs,
            outputs: graph.outputs().to_vec(),
            is_batched,
        })
    }

    /// Shape of the first input.
    #[must_use]
    pub fn input_shape(&self) -> &[usize] {
        // The first layer takes the first input, because no other value precedes it.
        self.seen(&self.steps[0].input)
    }

    /// Shape of the first output.
    #[must_use]
    pub fn output_shape(&self) -> &[usize] {
        self.seen(&self.steps[self.outputs[0]].output)
    }

    /// Shapes of all outputs, the first one's first.
    pub fn output_shapes(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        self.outputs
            .iter()
            .map(|&layer| self.seen(&self.steps[layer].output))
    }

    /// Returns a layer's shape with or without a batch, like the input.
    fn seen<'a>(&self, shape: &'a [usize]) -> &'a [usize] {
        &shape[usize::from(!self.is_batched)..]
    }
}

/// Adds the extent of a further operand on the axis of a concatenation. All other extents must agree.
fn join(
    operator: &'static str,
    joint: &mut [usize],
    other: &[usize],
    axis: usize,
) -> Result<(), SpecError> {
    let mut expected = joint.to_vec();
    if let (Some(expected), Some(own)) = (expected.get_mut(axis), other.get(axis)) {
        *expected = *own;
    }
    same_shape(operator, "operand", other, &expected)?;
    joint[axis] = joint[axis].saturating_add(other[axis]);
    Ok(())
}

/// Checks that the input has the graph's number of channels, from which the parameters' shapes follow.
fn check_channels(
    operator: &'static str,
    input: &[usize],
    in_channels: Option<usize>,
) -> Result<(), SpecError> {
    let Some(expected) = in_channels else {
        return Ok(());
    };
    match input.get(1) {
        Some(&actual) if actual != expected => Err(SpecError::Mismatch {
            operator,
            quantity: Quantity::entry("input", 1),
            actual,
            expected,
        }),
        Some(_) => Ok(()),
        None => Err(SpecError::Rank {
            operator,
            tensor: "input",
            actual: input.len(),
            rule: RankRule::AtLeast(2),
        }),
    }
}
