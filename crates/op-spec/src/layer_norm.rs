//! Layer normalisation over the last axes: over channels and space of every sample, for example.

use crate::error::{RankRule, SpecError, check_eps};
use crate::group_norm::GroupNormProblem;
use crate::setters::eps_alone;
use crate::shape::{ChannelShape, same_shape};

const OPERATOR: &str = "layer_norm";

eps_alone! {
    /// Attributes of layer normalisation; see
    /// [`torch.nn.functional.layer_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.layer_norm.html).
    ///
    /// `normalized_shape` has the extents of the input's last axes, but never the batch. A norm of channels
    /// and space with a weight for each *channel* is [`GroupNormSpec`](crate::GroupNormSpec) with one group.
    LayerNormSpec
}

impl LayerNormSpec {
    /// Checks the attributes before any input shape is known.
    ///
    /// # Errors
    /// A shape without dimensions; NaN or negative `eps`.
    pub fn check(&self, normalized_shape: &[usize]) -> Result<(), SpecError> {
        if normalized_shape.is_empty() {
            return Err(SpecError::Rank {
                operator: OPERATOR,
                tensor: "normalized_shape",
                actual: 0,
                rule: RankRule::AtLeast(1),
            });
        }
        check_eps(OPERATOR, self.eps, true)
    }

    /// Checks the attributes against the shapes of the input (any rank from 2) and of the optional weight and
    /// bias, which have the shape `normalized_shape`.
    ///
    /// Empty batches and empty images are accepted and give empty outputs. A single value is its own mean and
    /// gives 0.
    ///
    /// # Errors
    /// A `normalized_shape` that differs from the input's last extents or includes the batch; parameters of
    /// another shape; NaN or negative `eps`.
    pub fn problem(
        &self,
        input: &[usize],
        normalized_shape: &[usize],
        weight: Option<&[usize]>,
        bias: Option<&[usize]>,
    ) -> Result<LayerNormProblem, SpecError> {
        self.check(normalized_shape)?;
        let shape = ChannelShape::new(OPERATOR, input)?;
        let leading = input.len().saturating_sub(normalized_shape.len()).max(1);
        same_shape(
            OPERATOR,
            "normalized_shape",
            normalized_shape,
            &input[leading..],
        )?;
        for (name, parameter) in [("weight", weight), ("bias", bias)] {
            if let Some(parameter) = parameter {
                same_shape(OPERATOR, name, parameter, normalized_shape)?;
            }
        }
        let rows_per_sample = input[1..leading].iter().product();
        Ok(LayerNormProblem {
            shape: match rows_per_sample {
                1 => shape,
                _ => ChannelShape {
                    n: shape.n * rows_per_sample,
                    c: 1,
                    spatial: input[leading..].iter().product(),
                },
            },
            channels: shape.c,
            rows_per_sample,
            of_channels: false,
            eps: self.eps,
            weight: weight.is_some(),
            bias: bias.is_some(),
        })
    }

    /// Checks a norm over the channels of each position, whose `normalized_shape` is the number of channels.
    ///
    /// # Errors
    /// The errors of [`problem`](Self::problem).
    #[cfg(feature = "graph")]
    pub(crate) fn problem_of_channels(
        &self,
        input: &[usize],
        normalized_shape: &[usize],
        [weight, bias]: [bool; 2],
    ) -> Result<LayerNormProblem, SpecError> {
        self.check(normalized_shape)?;
        let ChannelShape { n, c, spatial } = ChannelShape::new(OPERATOR, input)?;
        same_shape(OPERATOR, "normalized_shape", normalized_shape, &[c])?;
        Ok(LayerNormProblem {
            shape: ChannelShape {
                n: n * spatial,
                c: 1,
                spatial: c,
            },
            channels: c,
            rows_per_sample: spatial,
            of_channels: true,
            eps: self.eps,
            weight,
            bias,
        })
    }
}

/// A layer normalisation whose extents and attributes fit together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LayerNormProblem {
    /// Shape of input and output. If a sample has several rows, each row counts as a sample of one channel.
    pub shape: ChannelShape,
    /// Channels of the input.
    pub channels: usize,
    /// Number of rows of a sample; each row is normalised by itself. It is 1 if all axes but the batch are
    /// normalised.
    pub rows_per_sample: usize,
    /// Whether a row is the channels of a position, which are adjacent in NHWC, instead of the last axes.
    pub of_channels: bool,
    /// Number added to the variance.
    pub eps: f64,
    /// Whether there is a weight: one factor per element of a row for the normalised values.
    pub weight: bool,
    /// Whether there is a bias: one summand per element of a row after the weight.
    pub bias: bool,
}

impl LayerNormProblem {
    /// Whether each sample is normalised as a whole.
    #[must_use]
    pub const fn is_of_samples(&self) -> bool {
        self.rows_per_sample == 1
    }

    /// Whether there is a weight or a bias. A layer norm has them per element, and a group norm cannot.
    #[must_use]
    pub const fn is_affine(&self) -> bool {
        self.weight || self.bias
    }

    /// Returns the same computation, without weight and bias, as a group norm with one group.
    #[must_use]
    pub const fn as_group_norm(&self) -> GroupNormProblem {
        GroupNormProblem {
            shape: self.shape,
            num_groups: 1,
            eps: self.eps,
            over_batch: false,
            weight: false,
            bias: false,
        }
    }
}

#[cfg(feature = "graph")]
pub(crate) mod layer {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    use serde::{Deserialize, Serialize};

    use super::{LayerNormSpec, OPERATOR};
    use crate::error::{RankRule, SpecError, channels_alone};
    use crate::graph::Initialisation;
    use crate::graph::file::{eps, is_true, written_as, yes};
    use crate::graph::layer::{Flow, GraphLayer, Layer, LayerProblem};
    use crate::graph::parameters::{Wanted, unless};
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
}
