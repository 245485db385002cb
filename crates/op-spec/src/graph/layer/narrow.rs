//! Slices as layers.

use alloc::vec::Vec;

use super::{Flow, GraphLayer, Layer, LayerProblem, constructors};
use crate::NarrowSpec;
use crate::error::{Quantity, SpecError, at_least_one};
use crate::narrow::OPERATOR;

constructors! {
    /// Slices the axis `dim`: `length` indices from `start` on; see [`NarrowSpec`].
    narrow(dim: usize, start: usize, length: usize) = Layer::Narrow(NarrowSpec::new(dim, start, length));
}

impl GraphLayer for NarrowSpec {
    fn needs_channels(&self) -> bool {
        false
    }

    fn needs_batch(&self) -> bool {
        // `dim` counts the batch as axis 0.
        true
    }

    fn flow(&self, given: &Flow) -> Result<Flow, SpecError> {
        at_least_one(OPERATOR, Quantity::scalar("dim"), self.dim)?;
        let of_channels = given.channels.filter(|_| self.dim == 1);
        of_channels.map_or(Ok(()), |channels| self.check_extent(channels))?;
        Ok(Flow {
            channels: of_channels.map(|_| self.length).or(given.channels),
            ..*given
        })
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let problem = NarrowSpec::problem(self, input)?;
        let mut output = input.to_vec();
        output[self.dim] = self.length;
        Ok((LayerProblem::Narrow(problem), output))
    }
}
