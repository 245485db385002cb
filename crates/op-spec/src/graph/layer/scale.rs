//! Products with one factor per channel as layers.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Flow, GraphLayer, Layer, LayerProblem};
use crate::graph::Initialisation;
use crate::graph::parameters::Wanted;
use crate::setters::setters;
use crate::{ScaleSpec, SpecError};

/// A product with one factor per channel: PyTorch's `x * factor` with a `factor` of the shape `(c, 1, 1)`
/// for images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
#[non_exhaustive]
pub struct ScaleLayer {
    /// Name of the factor. Layers that give the same name share it.
    pub name: String,
    /// The initial values of the factor.
    #[serde(default = "ones")]
    pub initialisation: Initialisation,
}

setters! {
    [] ScaleLayer {
        /// Sets the initial values of the factor.
        initialisation(initialisation: Initialisation) |layer| layer.initialisation = initialisation;
    }
}

impl Layer {
    /// Returns a product with a factor of initially 1.
    #[must_use]
    pub fn scale(name: impl Into<String>) -> ScaleLayer {
        ScaleLayer {
            name: name.into(),
            initialisation: Initialisation::Ones,
        }
    }
}

fn ones() -> Initialisation {
    Initialisation::Ones
}

impl GraphLayer for ScaleLayer {
    fn is_pointwise(&self) -> bool {
        true
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self, flow: &Flow) -> Vec<Wanted> {
        let mut shape = vec![flow.channels.unwrap_or(0)];
        shape.resize(1 + flow.dimensions.unwrap_or(0), 1);
        vec![Wanted {
            suffix: "",
            shape,
            initialisation: self.initialisation,
            absent_without: None,
        }]
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let factors = [input.get(1).copied().unwrap_or(0)];
        let problem = ScaleSpec.problem(input, &factors)?;
        Ok((LayerProblem::Scale(problem), input.to_vec()))
    }
}
