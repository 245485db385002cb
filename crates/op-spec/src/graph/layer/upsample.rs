//! Upsampling as layers.

use alloc::vec::Vec;

use super::{GraphLayer, Layer, LayerProblem};
use crate::UpsampleSpec;
use crate::error::SpecError;

impl Layer {
    /// Upsamples, for example by `UpsampleSpec::scale_factor(2.0)`; see [`UpsampleSpec`].
    #[must_use]
    pub const fn upsample(spec: UpsampleSpec) -> Layer {
        Layer::Upsample(spec)
    }
}

impl GraphLayer for UpsampleSpec {
    fn dimensions(&self) -> Option<usize> {
        UpsampleSpec::dimensions(self)
    }

    fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
        UpsampleSpec::check(self)?;
        Ok(Some(channels))
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let problem = UpsampleSpec::problem(self, input)?;
        let output = problem.output_shape().to_vec();
        Ok((LayerProblem::Upsample(problem), output))
    }
}
