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
pub(crate) fn check(quantity: Quantity, actual: usize, channels: usize) -> Result<(), SpecError> {
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
