//! A parameter of a graph, and what a layer says of those that it may have.

extern crate std;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::data;

/// What a parameter is before training, as PyTorch has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Initialisation {
    /// Uniform within `1 / sqrt(fan_in)`, as convolutions have it.
    Uniform {
        /// Values that one output depends on.
        fan_in: usize,
    },
    /// All 1.
    Ones,
    /// All 0.
    Zeros,
    /// All this number.
    Constant(f64),
    /// Normally distributed, mean 0 and deviation 1.
    Normal,
}

/// A tensor that a graph is given beside its input.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Parameter {
    /// PyTorch's name, such as `conv.weight`.
    pub name: String,
    /// Its shape. A factor per channel has as many trailing ones as there are spatial dimensions, where these
    /// are known.
    pub shape: Vec<usize>,
    /// What it is before training.
    pub initialisation: Initialisation,
    /// A number of its own among the graph's parameters, whether or not others are there: what random
    /// initialisation makes it from.
    pub stream: u64,
}

/// Seeds below this have 32 bits.
const OF_32_BITS: u64 = 1 << 32;
/// Seeds below this leave room for the number of one of the first four streams.
const OF_FOUR_STREAMS: u64 = 1 << 62;

impl Parameter {
    /// Product of the extents.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Element `index` before training, in a model initialised from `seed`.
    #[must_use]
    pub fn initial(&self, seed: u64, index: u64) -> f32 {
        // Streams of four are numbered through from seed to seed; later ones must not meet those of the next
        // seed.
        let mixed = || data::splitmix64(seed ^ data::splitmix64(self.stream));
        let seed = match (self.stream, seed) {
            (0..4, 0..OF_FOUR_STREAMS) => seed * 4 + self.stream,
            // Models that were initialised when only these bits of a mixed seed counted keep their values.
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

/// A parameter that a layer of a graph does not have, and would have under another attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbsentParameter {
    /// PyTorch's name, such as `conv.bias`.
    pub name: String,
    /// Which layer, counted from 0.
    pub layer: usize,
    /// The attribute that would have to be true, such as `bias`.
    pub attribute: &'static str,
}

/// A parameter that a layer may have.
pub(crate) struct Wanted {
    /// What follows the layer's name in its own.
    pub(crate) suffix: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) initialisation: Initialisation,
    /// The attribute that would have to be true, where the layer does not have the parameter.
    pub(crate) absent_without: Option<&'static str>,
}

/// The attribute's name, where it is false.
pub(crate) fn unless(value: bool, attribute: &'static str) -> Option<&'static str> {
    (!value).then_some(attribute)
}

/// The weight and the bias of a norm.
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
