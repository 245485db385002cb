//! A linear map of the channels of each sample: a convolution without spatial dimensions.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Convolution, Flow, GraphLayer, Layer, LayerProblem};
use crate::attributes::{is_true, yes};
use crate::error::{Quantity, RankRule, SpecError, at_least_one, channels_alone};
use crate::graph::Initialisation;
use crate::graph::parameters::{Wanted, unless};
use crate::setters::setters;
use crate::{ConvProblem, ConvSpec};

const OPERATOR: &str = ConvSpec::<0>::OPERATOR;

/// A linear map of the channels of inputs `(n, c)`, as `torch.nn.Linear` describes it. With
/// [`dim`](Self::dim) 1, it maps the channels of each position of sequences, images and volumes. PyTorch code
/// writes this between two permutations that move the channels to the end and back.
///
/// ```
/// # use op_spec as convfuse;
/// use convfuse::graph::{Chain, Layer};
///
/// let chain = Chain::new(8, (
///     Layer::adaptive_avg_pool2d(1),
///     Layer::flatten(),
///     Layer::linear("fc", 8, 10),
/// ))?;
/// assert_eq!(chain.problem(&[2, 8, 5, 6])?.output_shape(), [2, 10]);
/// assert_eq!(chain.parameters()[0].shape, [10, 8]);
/// # Ok::<(), op_spec::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
#[non_exhaustive]
pub struct LinearLayer {
    /// Prefix of its parameters: `name.weight`, `name.bias`.
    pub name: String,
    /// Channels of the input.
    pub in_features: usize,
    /// Channels of the output.
    pub out_features: usize,
    /// Whether the layer adds a bias; PyTorch's default is true.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub bias: bool,
    /// The mapped axis: 1, the channels of inputs of any rank. `None` is for inputs with two axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
}

setters! {
    [] LinearLayer {
        /// Sets whether the layer adds a bias.
        bias(bias: bool) |layer| layer.bias = bias;
        /// Maps this axis of inputs of any rank: 1, the channels.
        dim(dim: usize) |layer| layer.dim = Some(dim);
    }
}

impl Layer {
    /// Returns a linear map of `in_features` channels to `out_features`, with a bias.
    #[must_use]
    pub fn linear(name: impl Into<String>, in_features: usize, out_features: usize) -> LinearLayer {
        LinearLayer {
            name: name.into(),
            in_features,
            out_features,
            bias: true,
            dim: None,
        }
    }
}

impl LinearLayer {
    /// Refuses inputs with another number of channels than `in_features`.
    fn must_take(&self, actual: usize) -> Result<(), SpecError> {
        match actual == self.in_features {
            true => Ok(()),
            false => Err(SpecError::Mismatch {
                operator: OPERATOR,
                quantity: Quantity::entry("input", 1),
                actual,
                expected: self.in_features,
            }),
        }
    }
}

impl GraphLayer for LinearLayer {
    fn dimensions(&self) -> Option<usize> {
        self.dim.is_none().then_some(0)
    }

    fn convolution(&self) -> Option<Convolution> {
        Some(Convolution::Ordinary)
    }

    fn needs_channels(&self) -> bool {
        // The layer itself has the number of channels.
        false
    }

    fn flow(&self, given: &Flow) -> Result<Flow, SpecError> {
        for (name, features) in [
            ("in_features", self.in_features),
            ("out_features", self.out_features),
        ] {
            at_least_one(OPERATOR, Quantity::scalar(name), features)?;
        }
        self.dim
            .map_or(Ok(()), |dim| channels_alone(OPERATOR, dim))?;
        given
            .channels
            .map_or(Ok(()), |channels| self.must_take(channels))?;
        Ok(Flow {
            channels: Some(self.out_features),
            dimensions: self.dimensions().or(given.dimensions),
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self, _: &Flow) -> Vec<Wanted> {
        let wanted = |suffix, shape, absent_without| Wanted {
            suffix,
            shape,
            initialisation: Initialisation::Uniform {
                fan_in: self.in_features,
            },
            absent_without,
        };
        let weight = vec![self.out_features, self.in_features];
        vec![
            wanted(".weight", weight, None),
            wanted(".bias", vec![self.out_features], unless(self.bias, "bias")),
        ]
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        if let [_, channels, ..] = *input {
            self.must_take(channels)?;
        }
        match (self.dim, input.len()) {
            (Some(_), 3) => self.on::<1>(input),
            (Some(_), 4) => self.on::<2>(input),
            (Some(_), 5) => self.on::<3>(input),
            (Some(_), 6..) => Err(SpecError::Rank {
                operator: OPERATOR,
                tensor: "input",
                actual: input.len(),
                rule: RankRule::AtMost(5),
            }),
            _ => self.on::<0>(input),
        }
    }
}

impl LinearLayer {
    /// Returns the map of inputs with `D` axes behind the channels, as a convolution.
    fn on<const D: usize>(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError>
    where
        ConvProblem<D>: Into<LayerProblem>,
    {
        let bias = [self.out_features];
        let bias = self.bias.then_some(&bias[..]);
        let mut weight = vec![1; D + 2];
        weight[..2].copy_from_slice(&[self.out_features, self.in_features]);
        let problem = ConvSpec::<D>::default().problem(input, &weight, bias)?;
        Ok((problem.into(), problem.output_shape().to_vec()))
    }
}
