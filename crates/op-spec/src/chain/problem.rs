//! A chain on an input of known shape.

use alloc::vec::Vec;

use super::Chain;
use super::error::ChainError;
use super::inputs::{self, ChainInput};
use super::layer::LayerProblem;
use crate::error::{Quantity, RankRule, SpecError};

/// A layer with its shapes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShapedLayer {
    /// What is to be computed.
    pub problem: LayerProblem,
    /// Shape of what it is given.
    pub input: Vec<usize>,
    /// Shape of what it gives.
    pub output: Vec<usize>,
}

/// A chain whose extents are all known.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChainProblem {
    /// The layers, at least one. Their shapes have a batch, which is of one sample where the input lacks it.
    pub steps: Vec<ShapedLayer>,
    /// The inputs beside the first one, in the order of [`Chain::inputs`].
    pub inputs: Vec<ChainInput>,
    /// Whether the input, and with it the output, has a batch.
    pub is_batched: bool,
}

impl ChainProblem {
    pub(super) fn new(chain: &Chain, input: &[usize]) -> Result<ChainProblem, ChainError> {
        let is_batched = !chain.lacks_batch(input);
        let mut shape = input.to_vec();
        if !is_batched {
            let mut layers = chain.layers().iter().enumerate();
            if let Some((layer, needing)) = layers.find(|(_, layer)| layer.kind().needs_batch()) {
                let operator = needing.operator();
                return Err(ChainError::NoBatch { layer, operator });
            }
            shape.insert(0, 1);
        }
        let mut steps = Vec::with_capacity(chain.layers().len());
        let mut inputs = Vec::new();
        for (index, layer) in chain.layers().iter().enumerate() {
            let expected = (index == 0).then_some(chain.in_channels());
            let shaped = check_channels(layer.operator(), &shape, expected)
                .and_then(|()| layer.kind().problem(&shape));
            let (problem, output) = shaped.map_err(|source| ChainError::Layer {
                layer: index,
                source,
            })?;
            inputs::note(&mut inputs, layer.kind().input(), index, &shape)?;
            steps.push(ShapedLayer {
                problem,
                input: shape,
                output: output.clone(),
            });
            shape = output;
        }
        // Further inputs have a batch where the first one has.
        if !is_batched {
            for input in &mut inputs {
                input.shape.remove(0);
            }
        }
        Ok(ChainProblem {
            steps,
            inputs,
            is_batched,
        })
    }

    /// Shape of the input.
    #[must_use]
    pub fn input_shape(&self) -> &[usize] {
        self.seen(&self.steps[0].input)
    }

    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> &[usize] {
        self.seen(&self.steps[self.steps.len() - 1].output)
    }

    /// A layer's shape as the input has it, with or without a batch.
    fn seen<'a>(&self, shape: &'a [usize]) -> &'a [usize] {
        &shape[usize::from(!self.is_batched)..]
    }
}

/// The chain's own number of channels, which its parameters follow, against the input's.
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
