//! Layer norms as layers.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Flow, GraphLayer, Layer, LayerProblem};
use crate::LayerNormSpec;
use crate::attributes::{eps, is_true, written_as, yes};
use crate::error::{RankRule, SpecError, channels_alone};
use crate::graph::Initialisation;
use crate::graph::parameters::{Wanted, unless};
use crate::layer_norm::OPERATOR;
use crate::setters::setters;
use crate::shape::same_shape;

/// A layer norm over the last axes, as `torch.nn.LayerNorm` describes it, or over the channels. PyTorch
/// code writes the latter between two permutations that move the channels to the end and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "LayerNormFile", into = "LayerNormFile")]
#[non_exhaustive]
pub struct LayerNormLayer {
    /// Prefix of its parameters: `name.weight`, `name.bias`.
    pub name: String,
    /// The extents of the last axes, any but the batch; also the shape of the parameters.
    pub normalized_shape: Vec<usize>,
    /// Eps.
    pub attributes: LayerNormSpec,
    /// Whether the norm has a weight and, if `bias` is true, a bias.
    pub elementwise_affine: bool,
    /// Whether there is a bias beside the weight.
    pub bias: bool,
    /// The axis to normalise instead of the last ones: 1, the channels.
    pub dim: Option<usize>,
}

setters! {
    [] LayerNormLayer {
        /// Sets all attributes.
        attributes(attributes: LayerNormSpec) |layer| layer.attributes = attributes;
        /// Sets the number added to the variance.
        eps(eps: f64) |layer| layer.attributes.eps = eps;
        /// Sets whether the norm has a weight and a bias.
        elementwise_affine(affine: bool) |layer| layer.elementwise_affine = affine;
        /// Sets whether there is a bias beside the weight.
        bias(bias: bool) |layer| layer.bias = bias;
        /// Normalises this axis instead of the last ones: 1, the channels of each position.
        dim(dim: usize) |layer| layer.dim = Some(dim);
    }
}

impl Layer {
    /// Returns a layer norm with PyTorch's defaults: eps 1e-5, weight and bias for each element of
    /// `normalized_shape`.
    #[must_use]
    pub fn layer_norm(name: impl Into<String>, normalized_shape: &[usize]) -> LayerNormLayer {
        LayerNormLayer {
            name: name.into(),
            normalized_shape: normalized_shape.to_vec(),
            attributes: LayerNormSpec::default(),
            elementwise_affine: true,
            bias: true,
            dim: None,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
struct LayerNormFile {
    name: String,
    normalized_shape: Vec<usize>,
    #[serde(default = "eps")]
    eps: f64,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    elementwise_affine: bool,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    bias: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dim: Option<usize>,
}

written_as!(LayerNormFile: LayerNormLayer { name, normalized_shape, elementwise_affine, bias, dim }, LayerNormSpec { eps });

impl GraphLayer for LayerNormLayer {
    fn needs_channels(&self) -> bool {
        false
    }

    fn flow(&self, given: &Flow) -> Result<Flow, SpecError> {
        let shape = &self.normalized_shape[..];
        self.attributes.check(shape)?;
        if let Some(dim) = self.dim {
            channels_alone(OPERATOR, dim)?;
            let [features] = shape else {
                return Err(SpecError::Rank {
                    operator: OPERATOR,
                    tensor: "normalized_shape",
                    actual: shape.len(),
                    rule: RankRule::Exactly(1),
                });
            };
            let channels = given.channels.unwrap_or(*features);
            same_shape(OPERATOR, "normalized_shape", shape, &[channels])?;
            return Ok(Flow {
                channels: Some(channels),
                ..*given
            });
        }
        if let (Some(dimensions), Some(channels)) = (given.dimensions, given.channels)
            && shape.len() == dimensions + 1
        {
            same_shape(OPERATOR, "normalized_shape", &shape[..1], &[channels])?;
        }
        Ok(*given)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self, _: &Flow) -> Vec<Wanted> {
        let wanted = |suffix, initialisation, absent_without| Wanted {
            suffix,
            shape: self.normalized_shape.clone(),
            initialisation,
            absent_without,
        };
        let no_weight = unless(self.elementwise_affine, "elementwise_affine");
        let no_bias = no_weight.or(unless(self.bias, "bias"));
        vec![
            wanted(".weight", Initialisation::Ones, no_weight),
            wanted(".bias", Initialisation::Zeros, no_bias),
        ]
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let shape = &self.normalized_shape[..];
        let weight = self.elementwise_affine.then_some(shape);
        let bias = weight.filter(|_| self.bias);
        let problem = match self.dim {
            None => self.attributes.problem(input, shape, weight, bias)?,
            Some(_) => {
                let affine = [weight.is_some(), bias.is_some()];
                self.attributes.problem_of_channels(input, shape, affine)?
            }
        };
        Ok((LayerProblem::LayerNorm(problem), input.to_vec()))
    }
}
