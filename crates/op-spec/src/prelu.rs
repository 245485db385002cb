//! A rectifier whose slope below 0 is a parameter.

use crate::error::{Quantity, RankRule, SpecError};
use crate::shape::{ChannelShape, elements};

const OPERATOR: &str = "prelu";

/// Multiplies values that are not above 0 by a slope, one for all channels or one for each; see
/// [`torch.nn.functional.prelu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.prelu.html).
/// No attributes: the shape of `weight` gives the number of slopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PreluSpec;

impl PreluSpec {
    /// Checks the shapes of the input and the slopes. With one slope the input may have any rank, with
    /// several any rank from 2.
    ///
    /// # Errors
    /// A `weight` that is not a vector; a number of slopes that is neither 1 nor that of the channels;
    /// several slopes for an input of rank under 2.
    pub fn problem(&self, input: &[usize], weight: &[usize]) -> Result<PreluProblem, SpecError> {
        let &[num_parameters] = weight else {
            return Err(SpecError::Rank {
                operator: OPERATOR,
                tensor: "weight",
                actual: weight.len(),
                rule: RankRule::Exactly(1),
            });
        };
        let shape = if num_parameters == 1 {
            ChannelShape {
                n: 1,
                c: 1,
                spatial: elements(OPERATOR, "input", input)?,
            }
        } else {
            let shape = ChannelShape::new(OPERATOR, input)?;
            check(Quantity::entry("weight", 0), num_parameters, shape.c)?;
            shape
        };
        Ok(PreluProblem {
            num_parameters,
            shape,
        })
    }
}

/// Refuses a number of slopes that is neither 1 nor that of the channels.
fn check(quantity: Quantity, actual: usize, channels: usize) -> Result<(), SpecError> {
    match actual == 1 || actual == channels {
        true => Ok(()),
        false => Err(SpecError::OneOrEach {
            operator: OPERATOR,
            quantity,
            actual,
            channels,
        }),
    }
}

/// A PReLU whose slopes fit its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreluProblem {
    /// Number of slopes: 1, or the number of channels.
    pub num_parameters: usize,
    /// Shape of input and output. With one slope, all elements count as one channel of one sample.
    pub shape: ChannelShape,
}

#[cfg(feature = "graph")]
pub(crate) mod layer {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    use serde::{Deserialize, Serialize};

    use super::PreluSpec;
    use crate::error::{Quantity, SpecError};
    use crate::graph::Initialisation;
    use crate::graph::file::{is_one, one};
    use crate::graph::layer::{Flow, GraphLayer, Layer, LayerProblem};
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
            super::check(quantity, self.num_parameters, channels).map(|()| Some(channels))
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
}
