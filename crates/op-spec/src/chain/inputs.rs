//! Inputs of a chain beside its first one.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::ChainError;
use super::layer::Layer;

/// A further input of a chain whose shape is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainInput {
    /// Its name.
    pub name: String,
    /// Its shape: that of what the layers are given that take it.
    pub shape: Vec<usize>,
}

/// Every name once, and for each layer where that of its further input stands.
pub(super) fn table(layers: &[Layer]) -> Result<(Vec<String>, Vec<Option<usize>>), ChainError> {
    let mut names: Vec<String> = Vec::new();
    let mut indices = Vec::with_capacity(layers.len());
    for (index, layer) in layers.iter().enumerate() {
        let name = layer.kind().input();
        if name == Some("") {
            return Err(ChainError::NoInputName {
                layer: index,
                operator: layer.operator(),
            });
        }
        indices.push(name.map(|name| {
            let known = names.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            })
        }));
    }
    Ok((names, indices))
}

/// Notes the shape of a layer's further input, if it takes one.
pub(super) fn note(
    inputs: &mut Vec<ChainInput>,
    name: Option<&str>,
    layer: usize,
    shape: &[usize],
) -> Result<(), ChainError> {
    let Some(name) = name else { return Ok(()) };
    match inputs.iter().find(|known| known.name == name) {
        Some(known) if known.shape != shape => Err(ChainError::SharedInput {
            layer,
            name: name.to_owned(),
            actual: shape.to_vec(),
            expected: known.shape.clone(),
        }),
        Some(_) => Ok(()),
        None => {
            inputs.push(ChainInput {
                name: name.to_owned(),
                shape: shape.to_vec(),
            });
            Ok(())
        }
    }
}
