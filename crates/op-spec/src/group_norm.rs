//! Group normalisation.

use crate::error::{Quantity, SpecError, at_least_one, check_eps};
use crate::setters::setters;
use crate::shape::ChannelShape;

const OPERATOR: &str = "group_norm";

/// Attributes of group normalisation; see
/// [`torch.nn.functional.group_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.group_norm.html).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GroupNormSpec {
    /// Number of groups into which the channels of a sample are divided; each has its own mean and deviation.
    pub num_groups: usize,
    /// Number added to the variance.
    pub eps: f64,
}

setters! {
    [] GroupNormSpec {
        /// Sets the number added to the variance.
        eps(eps: f64) |spec| spec.eps = eps;
    }
}

impl GroupNormSpec {
    /// Returns the specification with PyTorch's `eps` of 1e-5.
    #[must_use]
    pub const fn new(num_groups: usize) -> Self {
        Self {
            num_groups,
            eps: 1e-5,
        }
    }

    /// Checks the attributes before any input shape is known.
    ///
    /// # Errors
    /// No groups; channels that groups do not divide; NaN or negative `eps`.
    pub fn check(&self, channels: usize) -> Result<(), SpecError> {
        at_least_one(OPERATOR, Quantity::scalar("num_groups"), self.num_groups)?;
        if !channels.is_multiple_of(self.num_groups) {
            return Err(SpecError::NotMultiple {
                operator: OPERATOR,
                quantity: "channels",
                actual: channels,
                divisor_name: "num_groups",
                divisor: self.num_groups,
            });
        }
        check_eps(OPERATOR, self.eps, true)
    }

    /// Checks the attributes against the shapes of the input (any rank from 2) and of the optional
    /// weight and bias.
    ///
    /// Empty batches and empty images are accepted and give empty outputs.
    ///
    /// # Errors
    /// Rank under 2; no groups; channels that groups do not divide; parameters that are not one
    /// value per channel; NaN or negative `eps`; a whole input of one value per group (a single
    /// sample with a single channel per group and a single position), as in PyTorch.
    pub fn problem(
        &self,
        input: &[usize],
        weight: Option<&[usize]>,
        bias: Option<&[usize]>,
    ) -> Result<GroupNormProblem, SpecError> {
        let shape = ChannelShape::new(OPERATOR, input)?;
        self.check(shape.c)?;
        shape.check_parameter(OPERATOR, "weight", weight)?;
        shape.check_parameter(OPERATOR, "bias", bias)?;
        if shape.n == 1 && shape.c == self.num_groups && shape.spatial == 1 {
            return Err(SpecError::SingleValue {
                operator: OPERATOR,
                quantity: "values per group",
            });
        }
        Ok(GroupNormProblem {
            shape,
            num_groups: self.num_groups,
            eps: self.eps,
            over_batch: false,
            weight: weight.is_some(),
            bias: bias.is_some(),
        })
    }
}

/// A group normalisation whose extents and attributes fit together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GroupNormProblem {
    /// Shape of input and output.
    pub shape: ChannelShape,
    /// Groups per sample.
    pub num_groups: usize,
    /// Number added to the variance.
    pub eps: f64,
    /// Whether groups with the same index share their statistics over the batch, as in [batch
    /// norm](crate::BatchNormProblem::as_group_norm).
    pub over_batch: bool,
    /// Whether there is a weight: one factor per channel for the normalised values.
    pub weight: bool,
    /// Whether there is a bias: one summand per channel after the weight.
    pub bias: bool,
}

impl GroupNormProblem {
    /// Channels that share their statistics.
    #[must_use]
    pub const fn channels_per_group(&self) -> usize {
        self.shape.c / self.num_groups
    }

    /// Values of a group in one sample.
    #[must_use]
    pub const fn group_len(&self) -> usize {
        self.channels_per_group() * self.shape.spatial
    }
}
