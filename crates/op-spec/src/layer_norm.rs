//! Layer normalisation over the last axes: over channels and space of every sample, for example.

use crate::error::{RankRule, SpecError, check_eps};
use crate::group_norm::GroupNormProblem;
use crate::setters::eps_alone;
use crate::shape::{ChannelShape, same_shape};

pub(crate) const OPERATOR: &str = "layer_norm";

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
