//! Padding as layers.

use alloc::vec::Vec;

use super::{GraphLayer, Layer, LayerProblem};
use crate::error::SpecError;
use crate::{PadSpec, PadWidths};

impl Layer {
    /// Pads the spatial axes by zeros, or by elements of the input with
    /// [`padding_mode`](PadSpec::padding_mode). There are two widths for each axis, the last axis first.
    #[must_use]
    pub fn pad(padding: impl Into<PadWidths>) -> PadSpec {
        PadSpec::new(padding)
    }
}

impl GraphLayer for PadSpec {
    fn dimensions(&self) -> Option<usize> {
        Some(self.padding.dimensions())
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let problem = PadSpec::problem(self, input)?;
        let output = problem.output_shape().to_vec();
        Ok((LayerProblem::Pad(problem), output))
    }
}
