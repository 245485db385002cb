//! The parameters of a chain: one table that initialisation, checks, files and uploads walk over.

extern crate std;

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::error::ChainError;
use super::layer::{Flow, Layer};
use crate::data;

/// What a parameter is before training, as PyTorch has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Normally distributed, mean 0 and deviation 1.
    Normal,
}

/// A tensor that a chain is given beside its input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// PyTorch's name, such as `conv.weight`.
    pub name: String,
    /// Its shape. A factor per channel has as many trailing ones as there are spatial dimensions, where these are known.
    pub shape: Vec<usize>,
    /// What it is before training.
    pub initialisation: Initialisation,
    /// A number of its own among the chain's parameters, whether or not others are there: what random initialisation
    /// makes it from.
    pub stream: u64,
}

impl Parameter {
    /// Product of the extents.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Element `index` before training, in a model initialised from `seed`.
    #[must_use]
    pub fn initial(&self, seed: u64, index: u64) -> f32 {
        // Four parameters with random values have numbers of their own; a fifth shares its with the next seed's first.
        let seed = seed.wrapping_mul(4).wrapping_add(self.stream);
        match self.initialisation {
            Initialisation::Uniform { fan_in } => data::signed(seed, index) * uniform_bound(fan_in),
            Initialisation::Ones => 1.0,
            Initialisation::Zeros => 0.0,
            Initialisation::Normal => data::normal(seed, index),
        }
    }
}

/// Kaiming's uniform bound with `a = sqrt(5)`, which is `1 / sqrt(fan_in)`.
fn uniform_bound(fan_in: usize) -> f32 {
    (1.0 / (fan_in.max(1) as f64).sqrt()) as f32
}

/// A parameter of a layer, if it has it.
type Wanted = (&'static str, Vec<usize>, Initialisation, bool);

/// The parameters that a layer may have, in PyTorch's order.
fn wanted(layer: &Layer, flow: &Flow) -> Vec<Wanted> {
    let channels = flow.channels.unwrap_or(0);
    let conv = |shape: Vec<usize>, bias: bool| {
        // An absurd filter is refused with its input; its bound is of no use.
        let fan_in =
            (shape[1..].iter()).fold(1, |product: usize, &extent| product.saturating_mul(extent));
        let uniform = Initialisation::Uniform { fan_in };
        let vector = vec![shape[0]];
        vec![
            (".weight", shape, uniform, true),
            (".bias", vector, uniform, bias),
        ]
    };
    let norm = |affine| {
        vec![
            (".weight", vec![channels], Initialisation::Ones, affine),
            (".bias", vec![channels], Initialisation::Zeros, affine),
        ]
    };
    match layer {
        Layer::Conv2d(layer) => conv(layer.weight_shape(channels), layer.bias),
        Layer::Conv3d(layer) => conv(layer.weight_shape(channels), layer.bias),
        Layer::GroupNorm(layer) => norm(layer.affine),
        Layer::InstanceNorm(layer) => norm(layer.affine),
        Layer::Scale(layer) => {
            let mut shape = vec![channels];
            shape.resize(1 + flow.dimensions.unwrap_or(0), 1);
            vec![("", shape, layer.initialisation, true)]
        }
        Layer::MaxPool2d(_) | Layer::Clamp(_) | Layer::ChannelMax(_) => Vec::new(),
    }
}

/// The name under which a layer's parameters are stored.
fn name(layer: &Layer) -> &str {
    match layer {
        Layer::Conv2d(layer) => &layer.name,
        Layer::Conv3d(layer) => &layer.name,
        Layer::GroupNorm(layer) => &layer.name,
        Layer::InstanceNorm(layer) => &layer.name,
        Layer::Scale(layer) => &layer.name,
        Layer::MaxPool2d(_) | Layer::Clamp(_) | Layer::ChannelMax(_) => "",
    }
}

/// Every parameter once, and for each layer where its parameters stand.
pub(super) fn table(
    layers: &[Layer],
    flow: &[Flow],
) -> Result<(Vec<Parameter>, Vec<Vec<usize>>), ChainError> {
    let mut table: Vec<Parameter> = Vec::new();
    let mut slots = Vec::with_capacity(layers.len());
    let mut stream = 0;
    for (index, (layer, flow)) in layers.iter().zip(flow).enumerate() {
        let mut of_layer = Vec::new();
        for (suffix, shape, initialisation, present) in wanted(layer, flow) {
            let own = stream;
            stream += 1;
            if !present {
                continue;
            }
            if name(layer).is_empty() {
                let operator = layer.operator();
                return Err(ChainError::NoName {
                    layer: index,
                    operator,
                });
            }
            let name = format!("{}{suffix}", name(layer));
            let known = table.iter().position(|parameter| parameter.name == name);
            if let Some(slot) = known {
                let expected = &table[slot];
                if expected.shape != shape {
                    return Err(ChainError::Shared {
                        layer: index,
                        name,
                        actual: shape,
                        expected: expected.shape.clone(),
                    });
                }
                if expected.initialisation != initialisation {
                    return Err(ChainError::SharedInitialisation { layer: index, name });
                }
                of_layer.push(slot);
                continue;
            }
            of_layer.push(table.len());
            table.push(Parameter {
                name,
                shape,
                initialisation,
                stream: own,
            });
        }
        slots.push(of_layer);
    }
    Ok((table, slots))
}
