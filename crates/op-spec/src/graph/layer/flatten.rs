//! Flattening as layers.

use alloc::vec::Vec;

use super::{Flow, GraphLayer, Layer, LayerProblem};
use crate::FlattenSpec;
use crate::error::SpecError;

impl Layer {
    /// Merges all axes behind the batch into one.
    #[must_use]
    pub const fn flatten() -> Layer {
        Layer::Flatten(FlattenSpec {})
    }
}

impl GraphLayer for FlattenSpec {
    fn needs_channels(&self) -> bool {
        false
    }

    fn needs_batch(&self) -> bool {
        true
    }

    fn lost_dimensions(&self) -> Option<usize> {
        None
    }

    fn flow(&self, given: &Flow) -> Result<Flow, SpecError> {
        Ok(Flow {
            // With spatial axes, the number of channels depends on the input's extents.
            channels: given.channels.filter(|_| given.dimensions == Some(0)),
            dimensions: Some(0),
        })
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let problem = FlattenSpec::problem(self, input)?;
        let output = problem.output_shape().to_vec();
        Ok((LayerProblem::Flatten(problem), output))
    }
}
