//! Instance norms as layers.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Flow, GraphLayer, Layer, LayerProblem};
use crate::attributes::{eps, is_false, written_as};
use crate::graph::parameters::{Wanted, affine};
use crate::setters::setters;
use crate::{InstanceNormSpec, SpecError};

/// An instance norm, as `torch.nn.InstanceNorm2d` and `torch.nn.InstanceNorm3d` describe it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "InstanceNormFile", into = "InstanceNormFile")]
#[non_exhaustive]
pub struct InstanceNormLayer {
    /// Prefix of its parameters: `name.weight`, `name.bias`.
    pub name: String,
    /// Eps.
    pub attributes: InstanceNormSpec,
    /// Whether the norm has a weight and a bias.
    pub affine: bool,
}

setters! {
    [] InstanceNormLayer {
        /// Sets all attributes.
        attributes(attributes: InstanceNormSpec) |layer| layer.attributes = attributes;
        /// Sets the number added to the variance.
        eps(eps: f64) |layer| layer.attributes.eps = eps;
        /// Sets whether the norm has a weight and a bias.
        affine(affine: bool) |layer| layer.affine = affine;
    }
}

impl Layer {
    /// Returns an instance norm with PyTorch's defaults: eps 1e-5, neither weight nor bias.
    #[must_use]
    pub fn instance_norm(name: impl Into<String>) -> InstanceNormLayer {
        InstanceNormLayer {
            name: name.into(),
            attributes: InstanceNormSpec::default(),
            affine: false,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
struct InstanceNormFile {
    name: String,
    #[serde(default = "eps")]
    eps: f64,
    #[serde(default, skip_serializing_if = "is_false")]
    affine: bool,
}

written_as!(InstanceNormFile: InstanceNormLayer { name, affine }, InstanceNormSpec { eps });

impl GraphLayer for InstanceNormLayer {
    fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
        self.attributes.check().map(|()| Some(channels))
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
        Ok((LayerProblem::InstanceNorm(problem), input.to_vec()))
    }
}
