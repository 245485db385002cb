//! The parameters of a graph, and a layer's description of its possible parameters.

extern crate std;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::data;

/// The initial values of a parameter before training, as in PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Initialisation {
    /// Uniform within `±1 / sqrt(fan_in)`, as PyTorch initialises convolutions.
    Uniform {
        /// Number of values that one output depends on.
        fan_in: usize,
    },
    /// All 1.
    Ones,
    /// All 0.
    Zeros,
    /// All equal to this number.
    Constant(f64),
    /// Normally distributed, mean 0 and deviation 1.
    Normal,
}

/// A tensor that a graph takes beside its inputs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Parameter {
    /// PyTorch's name, such as `conv.weight`.
    pub name: String,
    /// The parameter's shape. A factor per channel has as many trailing extents of 1 as there are spatial
    /// dimensions, if their number is known.
    pub shape: Vec<usize>,
    /// The initial values before training.
    pub initialisation: Initialisation,
    /// The number of the random stream that initialises the parameter: unique in the graph, and independent
    /// of the presence of optional parameters.
    pub stream: u64,
}

/// The bound of seeds of 32 bits.
const OF_32_BITS: u64 = 1 << 32;
/// The bound of seeds that leave two bits for the number of one of the first four streams.
const OF_FOUR_STREAMS: u64 = 1 << 62;

impl Parameter {
    /// Product of the extents.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Computes element `index` before training, in a model initialised from `seed`.
    #[must_use]
    pub fn initial(&self, seed: u64, index: u64) -> f32 {
        // The first four streams have the seeds `4 * seed + stream`. The mixed seeds of later streams avoid a
        // collision with the streams of the next seed.
        let mixed = || data::splitmix64(seed ^ data::splitmix64(self.stream));
        let seed = match (self.stream, seed) {
            (0..4, 0..OF_FOUR_STREAMS) => seed * 4 + self.stream,
            // Older versions used only these bits of a mixed seed; models that they initialised keep their
            // values.
            (4.., 0..OF_32_BITS) => mixed() % OF_32_BITS,
            _ => mixed(),
        };
        match self.initialisation {
            Initialisation::Uniform { fan_in } => data::signed(seed, index) * uniform_bound(fan_in),
            Initialisation::Ones => 1.0,
            Initialisation::Zeros => 0.0,
            Initialisation::Constant(value) => value as f32,
            Initialisation::Normal => data::normal(seed, index),
        }
    }
}

/// Kaiming's uniform bound with `a = sqrt(5)`, which is `1 / sqrt(fan_in)`.
fn uniform_bound(fan_in: usize) -> f32 {
    (1.0 / (fan_in.max(1) as f64).sqrt()) as f32
}

/// A parameter that a layer of a graph lacks but would have with another attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbsentParameter {
    /// PyTorch's name, such as `conv.bias`.
    pub name: String,
    /// Index of the layer, counted from 0.
    pub layer: usize,
    /// The attribute that would have to be true, such as `bias`.
    pub attribute: &'static str,
}

/// A parameter that a layer may have.
pub(crate) struct Wanted {
    /// The part of the parameter's name behind the layer's name.
    pub(crate) suffix: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) initialisation: Initialisation,
    /// The attribute that would have to be true, if the layer lacks the parameter.
    pub(crate) absent_without: Option<&'static str>,
}

/// Returns the attribute's name if it is false.
pub(crate) fn unless(value: bool, attribute: &'static str) -> Option<&'static str> {
    (!value).then_some(attribute)
}

/// Returns the weight and the bias of a norm.
pub(crate) fn affine(channels: Option<usize>, affine: bool) -> Vec<Wanted> {
    let wanted = |suffix, initialisation| Wanted {
        suffix,
        shape: vec![channels.unwrap_or(0)],
        initialisation,
        absent_without: unless(affine, "affine"),
    };
    vec![
        wanted(".weight", Initialisation::Ones),
        wanted(".bias", Initialisation::Zeros),
    ]
}
