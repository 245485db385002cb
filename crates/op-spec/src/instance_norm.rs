//! Instance normalisation of every channel of every sample.

use crate::error::{SpecError, check_eps};
use crate::group_norm::GroupNormProblem;
use crate::setters::eps_alone;
use crate::shape::ChannelShape;

const OPERATOR: &str = "instance_norm";

eps_alone! {
    /// Attributes of instance normalisation; see
    /// [`torch.nn.functional.instance_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.instance_norm.html).
    InstanceNormSpec
}

impl InstanceNormSpec {
    /// Checks the attributes before any input shape is known.
    ///
    /// # Errors
    /// NaN or negative `eps`.
    pub fn check(&self) -> Result<(), SpecError> {
        check_eps(OPERATOR, self.eps, true)
    }

    /// Checks the attributes against the shapes of the input (any number of spatial dimensions)
    /// and of the optional weight and bias.
    ///
    /// Empty batches and empty images are accepted and give empty outputs (with a weight or bias,
    /// PyTorch fails on an empty batch).
    ///
    /// # Errors
    /// Rank under 2; one position per channel; parameters that are not one value per channel; NaN
    /// or negative `eps`.
    pub fn problem(
        &self,
        input: &[usize],
        weight: Option<&[usize]>,
        bias: Option<&[usize]>,
    ) -> Result<InstanceNormProblem, SpecError> {
        let shape = ChannelShape::new(OPERATOR, input)?;
        shape.check_parameter(OPERATOR, "weight", weight)?;
        shape.check_parameter(OPERATOR, "bias", bias)?;
        self.check()?;
        if shape.spatial == 1 {
            return Err(SpecError::SingleValue {
                operator: OPERATOR,
                quantity: "spatial elements",
            });
        }
        Ok(InstanceNormProblem {
            shape,
            eps: self.eps,
            weight: weight.is_some(),
            bias: bias.is_some(),
        })
    }
}

/// An instance normalisation whose extents and attributes fit together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct InstanceNormProblem {
    /// Shape of input and output.
    pub shape: ChannelShape,
    /// Number added to the variance.
    pub eps: f64,
    /// Whether there is a weight: one factor per channel for the normalised values.
    pub weight: bool,
    /// Whether there is a bias: one summand per channel after the weight.
    pub bias: bool,
}

impl InstanceNormProblem {
    /// Returns the same computation as a group norm with as many groups as channels.
    #[must_use]
    pub fn as_group_norm(&self) -> GroupNormProblem {
        GroupNormProblem {
            shape: self.shape,
            // Without channels there is nothing to group, and no group count to divide by.
            num_groups: self.shape.c.max(1),
            eps: self.eps,
            over_batch: false,
            weight: self.weight,
            bias: self.bias,
        }
    }
}
