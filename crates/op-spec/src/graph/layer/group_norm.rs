//! Group norms as layers.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Flow, GraphLayer, Layer, LayerProblem};
use crate::attributes::{eps, is_true, written_as, yes};
use crate::graph::parameters::{Wanted, affine};
use crate::setters::setters;
use crate::{GroupNormSpec, SpecError};

/// A group norm, as `torch.nn.GroupNorm` describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "GroupNormFile", into = "GroupNormFile")]
#[non_exhaustive]
pub struct GroupNormLayer {
    /// Prefix of its parameters: `name.weight`, `name.bias`.
    pub name: String,
    /// Groups and eps.
    pub attributes: GroupNormSpec,
    /// Whether the norm has a weight and a bias.
    pub affine: bool,
}

setters! {
    [] GroupNormLayer {
        /// Sets all attributes.
        attributes(attributes: GroupNormSpec) |layer| layer.attributes = attributes;
        /// Sets the number added to the variance.
        eps(eps: f64) |layer| layer.attributes.eps = eps;
        /// Sets whether the norm has a weight and a bias.
        affine(affine: bool) |layer| layer.affine = affine;
    }
}

impl Layer {
    /// Returns a group norm with PyTorch's defaults: eps 1e-5, weight and bias.
    #[must_use]
    pub fn group_norm(name: impl Into<String>, num_groups: usize) -> GroupNormLayer {
        GroupNormLayer {
            name: name.into(),
            attributes: GroupNormSpec::new(num_groups),
            affine: true,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
struct GroupNormFile {
    name: String,
    num_groups: usize,
    #[serde(default = "eps")]
    eps: f64,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    affine: bool,
}

written_as!(GroupNormFile: GroupNormLayer { name, affine }, GroupNormSpec { num_groups, eps });

impl GraphLayer for GroupNormLayer {
    fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
        self.attributes.check(channels).map(|()| Some(channels))
    }

    fn needs_batch(&self) -> bool {
        true
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self, flow: &Flow) -> Vec<Wanted> {
        affine(flow.channels, self.affine)
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let vector = [input.get(1).copied().unwrap_or(0)];
        let affine = self.affine.then_some(&vector[..]);
        let problem = self.attributes.problem(input, affine, affine)?;
        Ok((LayerProblem::GroupNorm(problem), input.to_vec()))
    }
}
