//! Batch norms as layers.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Flow, GraphLayer, Layer, LayerProblem, Role};
use crate::attributes::{eps, is_false, is_true, written_as, yes};
use crate::graph::parameters::{Wanted, affine};
use crate::graph::{ChannelAffine, Initialisation};
use crate::setters::setters;
use crate::{BatchNormSpec, SpecError};

/// A batch norm, as `torch.nn.BatchNorm1d`, `torch.nn.BatchNorm2d` and `torch.nn.BatchNorm3d` describe
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "BatchNormFile", into = "BatchNormFile")]
#[non_exhaustive]
pub struct BatchNormLayer {
    /// Prefix of its parameters: `name.running_mean`, `name.running_var`, `name.weight`, `name.bias`.
    pub name: String,
    /// Eps, and whether and how a batch updates the running statistics.
    pub attributes: BatchNormSpec,
    /// Whether the norm has a weight and a bias.
    pub affine: bool,
    /// Whether the norm has running statistics; without them, it uses the batch's.
    pub track_running_stats: bool,
}

setters! {
    [] BatchNormLayer {
        /// Sets all attributes.
        attributes(attributes: BatchNormSpec) |layer| layer.attributes = attributes;
        /// Sets the number added to the variance.
        eps(eps: f64) |layer| layer.attributes.eps = eps;
        /// Selects training (batch statistics, which update the running ones) or inference.
        training(training: bool) |layer| layer.attributes.training = training;
        /// Sets the weight of the batch statistics in the updated running statistics.
        momentum(momentum: impl Into<Option<f64>>) |layer| layer.attributes.momentum = momentum.into();
        /// Sets whether the norm has a weight and a bias.
        affine(affine: bool) |layer| layer.affine = affine;
        /// Sets whether the norm has running statistics; without them, it uses those of each batch.
        track_running_stats(track: bool) |layer| layer.track_running_stats = track;
    }
}

impl BatchNormLayer {
    /// Whether the statistics are the batch's: in training, and without running statistics.
    #[must_use]
    pub const fn is_by_batch(&self) -> bool {
        self.attributes.training || !self.track_running_stats
    }
}

impl Layer {
    /// Returns a batch norm at inference with PyTorch's defaults: eps 1e-5, weight and bias.
    #[must_use]
    pub fn batch_norm(name: impl Into<String>) -> BatchNormLayer {
        BatchNormLayer {
            name: name.into(),
            attributes: BatchNormSpec::default(),
            affine: true,
            track_running_stats: true,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
struct BatchNormFile {
    name: String,
    #[serde(default = "eps")]
    eps: f64,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    affine: bool,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    track_running_stats: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    training: bool,
    #[serde(default = "momentum", skip_serializing_if = "is_default_momentum")]
    momentum: Option<f64>,
}

fn momentum() -> Option<f64> {
    BatchNormSpec::default().momentum
}

fn is_default_momentum(value: &Option<f64>) -> bool {
    *value == momentum()
}

written_as!(
    BatchNormFile: BatchNormLayer { name, affine, track_running_stats },
    BatchNormSpec { eps, training, momentum }
);

impl GraphLayer for BatchNormLayer {
    fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
        self.attributes.check().map(|()| Some(channels))
    }

    fn needs_batch(&self) -> bool {
        true
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn couples_samples(&self) -> bool {
        self.is_by_batch()
    }

    fn is_pointwise(&self) -> bool {
        !self.is_by_batch()
    }

    fn parameters(&self, flow: &Flow) -> Vec<Wanted> {
        let statistic = |suffix, initialisation| Wanted {
            suffix,
            shape: vec![flow.channels.unwrap_or(0)],
            initialisation,
            absent_without: None,
        };
        let mut running = vec![
            statistic(".running_mean", Initialisation::Zeros),
            statistic(".running_var", Initialisation::Ones),
        ];
        running.retain(|_| self.track_running_stats);
        let mut affine = affine(flow.channels, self.affine);
        match self.is_by_batch() {
            true => {
                affine.extend(running);
                affine
            }
            false => {
                running.extend(affine);
                running
            }
        }
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let vector = &[input.get(1).copied().unwrap_or(0)][..];
        let affine = self.affine.then_some(vector);
        let running = self.track_running_stats.then_some([vector; 2]);
        let problem = self.attributes.problem(input, running, affine, affine)?;
        Ok((LayerProblem::BatchNorm(problem), input.to_vec()))
    }
}

impl super::BatchNormProblem {
    /// Returns the layer's role in a normal form.
    pub(crate) fn role(self) -> Role {
        match self.of_batch {
            true => Role::Norm(self.as_group_norm()),
            false => Role::Affine(ChannelAffine::BatchNorm(self)),
        }
    }
}
