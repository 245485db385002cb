//! Batch normalisation of every channel, by running statistics or by those of the batch.

use crate::error::{SpecError, check_eps};
use crate::group_norm::GroupNormProblem;
use crate::setters::setters;
use crate::shape::ChannelShape;

const OPERATOR: &str = "batch_norm";

/// Attributes of batch normalisation; see
/// [`torch.nn.functional.batch_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.batch_norm.html).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchNormSpec {
    /// Number added to the variance.
    pub eps: f64,
    /// Whether the batch's statistics are used even if there are running ones, which the batch then updates.
    pub training: bool,
    /// The weight of the batch statistics in the updated running statistics. PyTorch's `None`, an average
    /// over all batches, is accepted only for norms that update no statistics.
    pub momentum: Option<f64>,
}

impl Default for BatchNormSpec {
    /// PyTorch's `eps` of 1e-5 and momentum of 0.1, at inference.
    fn default() -> Self {
        Self {
            eps: 1e-5,
            training: false,
            momentum: Some(0.1),
        }
    }
}

setters! {
    [] BatchNormSpec {
        /// Sets the number added to the variance.
        eps(eps: f64) |spec| spec.eps = eps;
        /// Selects training (batch statistics, which update the running ones) or inference.
        training(training: bool) |spec| spec.training = training;
        /// Sets the weight of the batch statistics in the updated running statistics.
        momentum(momentum: impl Into<Option<f64>>) |spec| spec.momentum = momentum.into();
    }
}

impl BatchNormSpec {
    /// Checks the attributes before any input shape is known.
    ///
    /// # Errors
    /// An `eps` that is 0, negative or NaN; in training, an absent, infinite or NaN momentum.
    pub fn check(&self) -> Result<(), SpecError> {
        check_eps(OPERATOR, self.eps, false)?;
        match self.momentum {
            Some(momentum) if momentum.is_finite() => Ok(()),
            _ if !self.training => Ok(()),
            momentum => Err(SpecError::Momentum {
                operator: OPERATOR,
                momentum,
            }),
        }
    }

    /// Checks the attributes against the shapes of the input (any rank from 2), of the running mean and
    /// variance, and of the optional weight and bias. Without running statistics, the batch's statistics are
    /// used.
    ///
    /// Empty batches and empty images are accepted and give empty outputs. At inference a single value per
    /// channel is accepted: the statistics do not depend on the input.
    ///
    /// # Errors
    /// Rank under 2; statistics or parameters that are not one value per channel; an `eps` that is 0,
    /// negative or NaN; in training, an absent, infinite or NaN momentum; a single value per channel if the
    /// batch's statistics are used.
    pub fn problem(
        &self,
        input: &[usize],
        running: Option<[&[usize]; 2]>,
        weight: Option<&[usize]>,
        bias: Option<&[usize]>,
    ) -> Result<BatchNormProblem, SpecError> {
        let shape = ChannelShape::new(OPERATOR, input)?;
        let [mean, variance] = [0, 1].map(|index| running.map(|running| running[index]));
        for (name, parameter) in [
            ("running_mean", mean),
            ("running_var", variance),
            ("weight", weight),
            ("bias", bias),
        ] {
            shape.check_parameter(OPERATOR, name, parameter)?;
        }
        self.check()?;
        let of_batch = self.training || running.is_none();
        if of_batch && shape.n * shape.spatial == 1 {
            return Err(SpecError::SingleValue {
                operator: OPERATOR,
                quantity: "values per channel",
            });
        }
        Ok(BatchNormProblem {
            shape,
            eps: self.eps,
            of_batch,
            momentum: running.and(self.momentum.filter(|_| of_batch)),
            weight: weight.is_some(),
            bias: bias.is_some(),
        })
    }
}

/// A batch normalisation whose extents and attributes fit together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchNormProblem {
    /// Shape of input and output.
    pub shape: ChannelShape,
    /// Number added to the variance.
    pub eps: f64,
    /// Whether the statistics are the batch's. Weight and bias are then the first parameters, and running
    /// statistics the last ones; at inference the order is reversed.
    pub of_batch: bool,
    /// The weight of the batch statistics in the updated running statistics, if the norm updates any.
    pub momentum: Option<f64>,
    /// Whether there is a weight: one factor per channel for the normalised values.
    pub weight: bool,
    /// Whether there is a bias: one summand per channel after the weight.
    pub bias: bool,
}

impl BatchNormProblem {
    /// Computes `gain` and `shift` of `y = gain * x + shift` for a channel with these parameters:
    /// `gain = weight / sqrt(running_var + eps)` and `shift = bias - running_mean * gain`. The function
    /// `sqrt` computes the square root. An absent weight is 1, an absent bias 0.
    #[must_use]
    pub fn gain_and_shift(
        &self,
        [mean, variance, weight, bias]: [f64; 4],
        sqrt: impl Fn(f64) -> f64,
    ) -> [f64; 2] {
        let gain = weight / sqrt(variance + self.eps);
        [gain, bias - mean * gain]
    }

    /// Returns the updated running statistic, `(1 - momentum) * running + momentum * of_batch`. A norm that
    /// updates none returns `running`.
    #[must_use]
    pub fn renewed(&self, running: f64, of_batch: f64) -> f64 {
        let momentum = self.momentum.unwrap_or(0.0);
        (1.0 - momentum) * running + momentum * of_batch
    }

    /// Returns the norm by the batch's statistics as a group norm, with one group for each channel of all
    /// samples.
    #[must_use]
    pub fn as_group_norm(&self) -> GroupNormProblem {
        GroupNormProblem {
            shape: self.shape,
            // Without channels there is nothing to group, and no group count to divide by.
            num_groups: self.shape.c.max(1),
            eps: self.eps,
            over_batch: true,
            weight: self.weight,
            bias: self.bias,
        }
    }
}
