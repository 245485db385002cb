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

#[cfg(feature = "graph")]
pub(crate) mod layer {
    use alloc::string::String;
    use alloc::vec::Vec;

    use serde::{Deserialize, Serialize};

    use super::InstanceNormSpec;
    use crate::SpecError;
    use crate::graph::file::{eps, is_false, written_as};
    use crate::graph::layer::{Flow, GraphLayer, Layer, LayerProblem};
    use crate::graph::parameters::{Wanted, affine};
    use crate::setters::setters;

    /// An instance norm, as `torch.nn.InstanceNorm2d` and `torch.nn.InstanceNorm3d` describe it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(from = "InstanceNormFile", into = "InstanceNormFile")]
    #[non_exhaustive]
    pub struct InstanceNormLayer {
        /// Prefix of its parameters: `name.weight`, `name.bias`.
        pub name: String,
        /// Eps.
        pub attributes: InstanceNormSpec,
        /// Whether the norm has a weight and a bias.
        pub affine: bool,
    }

    setters! {
        [] InstanceNormLayer {
            /// Sets all attributes.
            attributes(attributes: InstanceNormSpec) |layer| layer.attributes = attributes;
            /// Sets the number added to the variance.
            eps(eps: f64) |layer| layer.attributes.eps = eps;
            /// Sets whether the norm has a weight and a bias.
            affine(affine: bool) |layer| layer.affine = affine;
        }
    }

    impl Layer {
        /// Returns an instance norm with PyTorch's defaults: eps 1e-5, neither weight nor bias.
        #[must_use]
        pub fn instance_norm(name: impl Into<String>) -> InstanceNormLayer {
            InstanceNormLayer {
                name: name.into(),
                attributes: InstanceNormSpec::default(),
                affine: false,
            }
        }
    }

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object of attributes")]
    struct InstanceNormFile {
        name: String,
        #[serde(default = "eps")]
        eps: f64,
        #[serde(default, skip_serializing_if = "is_false")]
        affine: bool,
    }

    written_as!(InstanceNormFile: InstanceNormLayer { name, affine }, InstanceNormSpec { eps });

    impl GraphLayer for InstanceNormLayer {
        fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
            self.attributes.check().map(|()| Some(channels))
        }

        fn name(&self) -> &str {
            &self.name
        }

        fn parameters(&self, flow: &Flow) -> Vec<Wanted> {
            affine(flow.channels, self.affine)
        }

        fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
            let vector = [input.get(1).copied().unwrap_or(0)];
            let affine = self.affine.then_some(&vector[..]);
            let problem = self.attributes.problem(input, affine, affine)?;
            Ok((LayerProblem::InstanceNorm(problem), input.to_vec()))
        }
    }
}
