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
        // Streams of four are numbered through from seed to seed; later ones must not meet those of the next seed.
        let seed = match self.stream {
            0..4 => seed.wrapping_mul(4).wrapping_add(self.stream),
            later => data::splitmix64(seed ^ data::splitmix64(later)),
        };
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

/// A parameter that a layer may have.
pub(crate) struct Wanted {
    /// What follows the layer's name in its own.
    pub(crate) suffix: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) initialisation: Initialisation,
    /// Whether the layer has it.
    pub(crate) present: bool,
}

/// The weight and the bias of a norm.
pub(crate) fn affine(flow: &Flow, present: bool) -> Vec<Wanted> {
    let wanted = |suffix, initialisation| Wanted {
        suffix,
        shape: vec![flow.channels.unwrap_or(0)],
        initialisation,
        present,
    };
    vec![
        wanted(".weight", Initialisation::Ones),
        wanted(".bias", Initialisation::Zeros),
    ]
}

/// Every parameter once, and for each layer where its parameters stand.
pub(super) fn table(
    layers: &[Layer],
    flow: &[Flow],
) -> Result<(Vec<Parameter>, Vec<Vec<usize>>), ChainError> {
    let mut table: Vec<Parameter> = Vec::new();
    let mut indices = Vec::with_capacity(layers.len());
    let mut stream = 0;
    for (index, (layer, flow)) in layers.iter().zip(flow).enumerate() {
        let mut of_layer = Vec::new();
        let stored_as = layer.kind().name();
        for wanted in layer.kind().parameters(flow) {
            let Wanted {
                suffix,
                shape,
                initialisation,
                present,
            } = wanted;
            let own = stream;
            stream += 1;
            if !present {
                continue;
            }
            if stored_as.is_empty() {
                let operator = layer.operator();
                return Err(ChainError::NoName {
                    layer: index,
                    operator,
                });
            }
            let name = format!("{stored_as}{suffix}");
            let known = table.iter().position(|parameter| parameter.name == name);
            if let Some(known) = known {
                let expected = &table[known];
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
                of_layer.push(known);
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
        indices.push(of_layer);
    }
    Ok((table, indices))
}
