//! Rectifiers with a learned slope as layers.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Flow, GraphLayer, Layer, LayerProblem};
use crate::PreluSpec;
use crate::attributes::{is_one, one};
use crate::error::{Quantity, SpecError};
use crate::graph::Initialisation;
use crate::graph::parameters::Wanted;
use crate::setters::setters;

/// A rectifier whose slope below 0 is a parameter, as `torch.nn.PReLU` describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
#[non_exhaustive]
pub struct PreluLayer {
    /// Prefix of its parameter, `name.weight`.
    pub name: String,
    /// Number of slopes: 1 for all channels, or the number of channels; PyTorch's default is 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub num_parameters: usize,
    /// The initial value of the slopes; PyTorch's default is 0.25.
    #[serde(default = "default_init", skip_serializing_if = "is_default_init")]
    pub init: f64,
}

setters! {
    [] PreluLayer {
        /// Sets the initial value of the slopes.
        init(init: f64) |layer| layer.init = init;
    }
}

impl Layer {
    /// Returns a PReLU with slopes that start at 0.25, one for all channels or one for each.
    #[must_use]
    pub fn prelu(name: impl Into<String>, num_parameters: usize) -> PreluLayer {
        PreluLayer {
            name: name.into(),
            num_parameters,
            init: default_init(),
        }
    }
}

fn default_init() -> f64 {
    0.25
}

fn is_default_init(init: &f64) -> bool {
    *init == default_init()
}

impl GraphLayer for PreluLayer {
    fn is_pointwise(&self) -> bool {
        true
    }

    fn needs_channels(&self) -> bool {
        self.num_parameters != 1
    }

    fn needs_batch(&self) -> bool {
        // Several slopes belong to the channels, PyTorch's axis 1.
        self.num_parameters != 1
    }

    fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
        let quantity = Quantity::scalar("num_parameters");
        crate::prelu::check(quantity, self.num_parameters, channels).map(|()| Some(channels))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self, _: &Flow) -> Vec<Wanted> {
        vec![Wanted {
            suffix: ".weight",
            shape: vec![self.num_parameters],
            initialisation: Initialisation::Constant(self.init),
            absent_without: None,
        }]
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let problem = PreluSpec.problem(input, &[self.num_parameters])?;
        Ok((LayerProblem::Prelu(problem), input.to_vec()))
    }
}
