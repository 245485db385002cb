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

#[cfg(feature = "graph")]
pub(crate) mod layer {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    use serde::{Deserialize, Serialize};

    use super::BatchNormSpec;
    use crate::SpecError;
    use crate::graph::file::{eps, is_false, is_true, written_as, yes};
    use crate::graph::layer::{Flow, GraphLayer, Layer, LayerProblem, Role};
    use crate::graph::parameters::{Wanted, affine};
    use crate::graph::{ChannelAffine, Initialisation};
    use crate::setters::setters;

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
}
