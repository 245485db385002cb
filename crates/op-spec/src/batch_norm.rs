//! Batch normalisation at inference: every channel by statistics that are known before.

use crate::error::{SpecError, check_eps};
use crate::setters::eps_alone;
use crate::shape::ChannelShape;

const OPERATOR: &str = "batch_norm";

eps_alone! {
    /// Attributes of batch normalisation at inference; see
    /// [`torch.nn.functional.batch_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.batch_norm.html)
    /// with `training=False`.
    ///
    /// PyTorch's `momentum` says how training renews the running statistics, and has no part in this.
    BatchNormSpec
}

impl BatchNormSpec {
    /// Checks what no input can make up for.
    ///
    /// # Errors
    /// an `eps` of 0, NaN or a negative one.
    pub fn check(&self) -> Result<(), SpecError> {
        check_eps(OPERATOR, self.eps, false)
    }

    /// Checks the attributes against the shapes of the input (any rank from 2), of the running statistics,
    /// and of the optional weight and bias.
    ///
    /// Empty batches and empty images are accepted and give empty outputs, and a single value per channel is
    /// normalised like any other: statistics are not the input's.
    ///
    /// # Errors
    /// Rank under 2; statistics or parameters that are not one value per channel; an `eps` of 0, NaN or a
    /// negative one.
    pub fn problem(
        &self,
        input: &[usize],
        running_mean: &[usize],
        running_var: &[usize],
        weight: Option<&[usize]>,
        bias: Option<&[usize]>,
    ) -> Result<BatchNormProblem, SpecError> {
        let shape = ChannelShape::new(OPERATOR, input)?;
        for (name, parameter) in [
            ("running_mean", Some(running_mean)),
            ("running_var", Some(running_var)),
            ("weight", weight),
            ("bias", bias),
        ] {
            shape.check_parameter(OPERATOR, name, parameter)?;
        }
        self.check()?;
        Ok(BatchNormProblem {
            shape,
            eps: self.eps,
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
    /// Added to the variance.
    pub eps: f64,
    /// Whether the normalised values are multiplied by one value per channel.
    pub weight: bool,
    /// Whether one value per channel is added at the end.
    pub bias: bool,
}

impl BatchNormProblem {
    /// `y = gain * x + shift` of a channel with these parameters: `gain = weight / sqrt(running_var + eps)`
    /// and `shift = bias - running_mean * gain`, by what takes the square root. An absent weight is 1, an
    /// absent bias 0.
    #[must_use]
    pub fn gain_and_shift(
        &self,
        [mean, variance, weight, bias]: [f64; 4],
        sqrt: impl Fn(f64) -> f64,
    ) -> [f64; 2] {
        let gain = weight / sqrt(variance + self.eps);
        [gain, bias - mean * gain]
    }
}

#[cfg(feature = "graph")]
pub(crate) mod layer {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize};

    use super::BatchNormSpec;
    use crate::SpecError;
    use crate::graph::Initialisation;
    use crate::graph::file::{eps, is_true, written_as, yes};
    use crate::graph::layer::{Flow, GraphLayer, Layer, LayerProblem};
    use crate::graph::parameters::{Wanted, affine};
    use crate::setters::setters;

    /// A batch norm at inference, as `torch.nn.BatchNorm1d`, `torch.nn.BatchNorm2d` and
    /// `torch.nn.BatchNorm3d` describe it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(from = "BatchNormFile", into = "BatchNormFile")]
    #[non_exhaustive]
    pub struct BatchNormLayer {
        /// Prefix of its parameters: `name.running_mean`, `name.running_var`, `name.weight`, `name.bias`.
        pub name: String,
        /// Eps.
        pub attributes: BatchNormSpec,
        /// Whether it has a weight and a bias.
        pub affine: bool,
    }

    setters! {
        [] BatchNormLayer {
            /// With these attributes.
            attributes(attributes: BatchNormSpec) |layer| layer.attributes = attributes;
            /// With this number added to the variance.
            eps(eps: f64) |layer| layer.attributes.eps = eps;
            /// With weight and bias, or without.
            affine(affine: bool) |layer| layer.affine = affine;
        }
    }

    impl Layer {
        /// A batch norm with PyTorch's defaults: eps 1e-5, weight and bias.
        #[must_use]
        pub fn batch_norm(name: impl Into<String>) -> BatchNormLayer {
            BatchNormLayer {
                name: name.into(),
                attributes: BatchNormSpec::default(),
                affine: true,
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
        /// Read, checked and left: without running statistics, those of the batch would count.
        #[serde(
            default = "yes",
            skip_serializing_if = "is_true",
            deserialize_with = "must_be_true"
        )]
        track_running_stats: bool,
        /// Read and left: it says how training renews the statistics.
        #[serde(default, skip_serializing)]
        #[allow(dead_code)]
        momentum: Option<f64>,
    }

    fn must_be_true<'de, D: Deserializer<'de>>(file: D) -> Result<bool, D::Error> {
        match bool::deserialize(file)? {
            true => Ok(true),
            false => Err(D::Error::custom(
                "expected true: statistics of the batch are for training",
            )),
        }
    }

    written_as!(BatchNormFile: BatchNormLayer { name, affine }, BatchNormSpec { eps }, track_running_stats: true, momentum: None);

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

        fn parameters(&self, flow: &Flow) -> Vec<Wanted> {
            let statistic = |suffix, initialisation| Wanted {
                suffix,
                shape: vec![flow.channels.unwrap_or(0)],
                initialisation,
                absent_without: None,
            };
            let mut wanted = vec![
                statistic(".running_mean", Initialisation::Zeros),
                statistic(".running_var", Initialisation::Ones),
            ];
            wanted.extend(affine(flow.channels, self.affine));
            wanted
        }

        fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
            let vector = &[input.get(1).copied().unwrap_or(0)][..];
            let affine = self.affine.then_some(vector);
            let problem = self
                .attributes
                .problem(input, vector, vector, affine, affine)?;
            Ok((LayerProblem::BatchNorm(problem), input.to_vec()))
        }
    }
}
