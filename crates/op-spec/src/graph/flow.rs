//! Channels and dimensions of the values of a graph, as far as they do not depend on the input.

use alloc::vec::Vec;

use super::Operand;
use super::error::GraphError;
use super::layer::{Flow, Layer};
use crate::{Quantity, SpecError};

/// Returns the first input's number of dimensions behind batch and channels. It follows from the first layer
/// that takes a fixed number of dimensions and whose distance in rank from the first input is known.
pub(super) fn input_dimensions(layers: &[Layer], operands: &[Vec<Operand>]) -> Option<usize> {
    // The number of axes by which each layer's output has fewer than the first input.
    let mut lost: Vec<Option<usize>> = Vec::with_capacity(layers.len());
    for (layer, operands) in layers.iter().zip(operands) {
        let before = match operands[0] {
            Operand::Layer(layer) => lost[layer],
            Operand::Input(_) => Some(0),
        };
        let layer = layer.kind();
        if let (Some(dimensions), Some(before)) = (layer.dimensions(), before) {
            return Some(dimensions + before);
        }
        lost.push(before.and_then(|before| Some(before + layer.lost_dimensions()?)));
    }
    None
}

/// Computes the [`Flow`] of each layer's first operand.
///
/// # Errors
/// The errors of [`Chain::new`](super::Chain::new), except those about parameters.
pub(super) fn flow(
    in_channels: usize,
    layers: &[Layer],
    operands: &[Vec<Operand>],
) -> Result<Vec<Flow>, GraphError> {
    let dimensions = input_dimensions(layers, operands);
    let mut flows = Vec::with_capacity(layers.len());
    // The flow of each layer's output.
    let mut given: Vec<Flow> = Vec::with_capacity(layers.len());
    for (index, layer) in layers.iter().enumerate() {
        let flow_of = |operand: &Operand| match *operand {
            Operand::Layer(layer) => given[layer],
            Operand::Input(input) => Flow {
                // The channels of further inputs follow from the first operand.
                channels: (input == 0).then_some(in_channels),
                dimensions,
            },
        };
        let flow = flow_of(&operands[index][0]);
        let Flow {
            channels,
            dimensions,
        } = flow;
        let (operator, layer) = (layer.operator(), layer.kind());
        let of_others = channels.map(|channels| layer.other_channels(channels));
        let others = operands[index][1..].iter().map(|other| match other {
            Operand::Input(1..) => of_others,
            other => flow_of(other).channels,
        });
        let others: Vec<Option<usize>> = others.collect();
        flows.push(flow);
        if channels.is_none() && layer.needs_channels() {
            return Err(GraphError::NoChannels {
                layer: index,
                operator,
            });
        }
        let is_joined = layer.joined_axis() == Some(1);
        for &actual in others.iter().flatten().filter(|_| !is_joined) {
            if let Some(expected) = of_others
                && actual != expected
            {
                let quantity = Quantity::entry("residual", 1);
                return Err(GraphError::Layer {
                    layer: index,
                    source: SpecError::Mismatch {
                        operator,
                        quantity,
                        actual,
                        expected,
                    },
                });
            }
        }
        if let (Some(actual), Some(expected)) = (dimensions, layer.dimensions())
            && actual != expected
        {
            return Err(GraphError::Dimensions {
                layer: index,
                operator,
                actual,
                expected,
            });
        }
        let joint = |sum: Option<usize>, other: &Option<usize>| sum?.checked_add((*other)?);
        let output = layer.flow(&match is_joined {
            true => Flow {
                channels: others.iter().fold(channels, joint),
                ..flow
            },
            false => flow,
        });
        given.push(output.map_err(|source| GraphError::Layer {
            layer: index,
            source,
        })?);
    }
    Ok(flows)
}
