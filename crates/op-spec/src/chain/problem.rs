//! A chain on an input of known shape.

use alloc::vec::Vec;

use super::Chain;
use super::error::ChainError;
use super::layer::{ConvLayer, Layer};
use crate::error::{Quantity, RankRule};
use crate::{
    ChannelMaxProblem, ChannelMaxSpec, ClampProblem, ConvProblem, ConvSpec, GroupNormProblem,
    InstanceNormProblem, MaxPool2dProblem, ScaleProblem, ScaleSpec, SpecError,
};

/// A layer whose extents and attributes fit together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // one variant for each of `Layer`'s
#[non_exhaustive]
pub enum LayerProblem {
    Conv2d(ConvProblem<2>),
    Conv3d(ConvProblem<3>),
    GroupNorm(GroupNormProblem),
    InstanceNorm(InstanceNormProblem),
    Scale(ScaleProblem),
    MaxPool2d(MaxPool2dProblem),
    Clamp(ClampProblem),
    ChannelMax(ChannelMaxProblem),
}

/// A layer with its shapes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Step {
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
    /// The layers, at least one.
    pub steps: Vec<Step>,
}

impl ChainProblem {
    pub(super) fn new(chain: &Chain, input: &[usize]) -> Result<ChainProblem, ChainError> {
        let mut shape = input.to_vec();
        let mut steps = Vec::with_capacity(chain.layers().len());
        for (index, layer) in chain.layers().iter().enumerate() {
            let expected = (index == 0).then_some(chain.in_channels());
            let step = check_channels(layer.operator(), &shape, expected)
                .and_then(|()| step(layer, &shape));
            let (problem, output) = step.map_err(|source| ChainError::Layer {
                layer: index,
                source,
            })?;
            steps.push(Step {
                problem,
                input: shape,
                output: output.clone(),
            });
            shape = output;
        }
        Ok(ChainProblem { steps })
    }

    /// Shape of the input.
    #[must_use]
    pub fn input_shape(&self) -> &[usize] {
        &self.steps[0].input
    }

    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> &[usize] {
        &self.steps[self.steps.len() - 1].output
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

/// One layer on an input of this shape, and the shape of its output.
fn step(layer: &Layer, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
    let channels = input.get(1).copied().unwrap_or(0);
    let vector = [channels];
    let affine = |affine: bool| affine.then_some(&vector[..]);
    let same = || input.to_vec();
    Ok(match layer {
        Layer::Conv2d(layer) => {
            let problem = conv(layer, input)?;
            (
                LayerProblem::Conv2d(problem),
                problem.output_shape().to_vec(),
            )
        }
        Layer::Conv3d(layer) => {
            let problem = conv(layer, input)?;
            (
                LayerProblem::Conv3d(problem),
                problem.output_shape().to_vec(),
            )
        }
        Layer::GroupNorm(layer) => {
            let affine = affine(layer.affine);
            let problem = layer.attributes.problem(input, affine, affine)?;
            (LayerProblem::GroupNorm(problem), same())
        }
        Layer::InstanceNorm(layer) => {
            let affine = affine(layer.affine);
            let problem = layer.attributes.problem(input, affine, affine)?;
            (LayerProblem::InstanceNorm(problem), same())
        }
        Layer::Scale(_) => {
            let problem = ScaleSpec.problem(input, &vector)?;
            (LayerProblem::Scale(problem), same())
        }
        Layer::MaxPool2d(attributes) => {
            let problem = attributes.problem(input)?;
            (
                LayerProblem::MaxPool2d(problem),
                problem.output_shape().to_vec(),
            )
        }
        Layer::Clamp(attributes) => (LayerProblem::Clamp(attributes.problem(input)?), same()),
        Layer::ChannelMax(_) => {
            let problem = ChannelMaxSpec.problem(input)?;
            let mut output = same();
            output.remove(1);
            (LayerProblem::ChannelMax(problem), output)
        }
    })
}

fn conv<const D: usize>(
    layer: &ConvLayer<D>,
    input: &[usize],
) -> Result<ConvProblem<D>, SpecError> {
    // Ranks are for the specification to refuse, which wants a filter to compare with.
    let channels = input.get(1).copied().unwrap_or(0);
    let bias = [layer.out_channels];
    let spec: &ConvSpec<D> = &layer.attributes;
    spec.problem(
        input,
        &layer.weight_shape(channels),
        layer.bias.then_some(&bias[..]),
    )
}
