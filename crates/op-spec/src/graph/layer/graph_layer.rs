//! What a graph needs of a layer.

use alloc::string::String;
use alloc::vec::Vec;

use super::LayerProblem;
use crate::SpecError;
use crate::graph::parameters::Wanted;

/// The channels and dimensions of a layer's input, as far as they do not depend on the graph's input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Number of channels; `None` behind a reduction over them.
    pub(crate) channels: Option<usize>,
    /// Number of dimensions behind the first two, if some layer has a fixed number of them.
    pub(crate) dimensions: Option<usize>,
}

/// A kind of convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convolution {
    /// Also a linear map, which has no spatial dimensions.
    Ordinary,
    Transposed,
}

/// The properties of a layer that a graph needs.
pub(crate) trait GraphLayer {
    /// Returns the number of spatial dimensions that the layer takes, if it is fixed.
    fn dimensions(&self) -> Option<usize> {
        None
    }

    /// Whether the layer needs an input with channels.
    fn needs_channels(&self) -> bool {
        true
    }

    /// Whether PyTorch's module takes the first axis of any input as the batch.
    fn needs_batch(&self) -> bool {
        false
    }

    /// Whether a sample's output depends on the other samples of its batch.
    fn couples_samples(&self) -> bool {
        false
    }

    /// Checks the attributes for an input with this number of channels, and returns the output's number, if
    /// any.
    fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
        Ok(Some(channels))
    }

    /// Returns the number of axes that the output lacks, if it is the same for any input.
    fn lost_dimensions(&self) -> Option<usize> {
        Some(0)
    }

    /// Returns the flow of the output for this flow of the input.
    fn flow(&self, given: &Flow) -> Result<Flow, SpecError> {
        let output = self.check(given.channels.unwrap_or(0))?;
        Ok(Flow {
            // An input without channels gives an output without channels.
            channels: given.channels.and(output),
            ..*given
        })
    }

    /// Returns the name under which the parameters are stored.
    fn name(&self) -> &str {
        ""
    }

    /// Returns the parameters that the layer may have, in PyTorch's order.
    fn parameters(&self, _: &Flow) -> Vec<Wanted> {
        Vec::new()
    }

    /// Returns the names of the operands beside the first one.
    fn operands(&self) -> &[String] {
        &[]
    }

    /// Returns the number of the layer whose output is the second operand, if it is given by number.
    fn earlier(&self) -> Option<usize> {
        None
    }

    /// Returns the axis along which the layer concatenates its operands, if it does.
    /// [`problem`](Self::problem) then takes the shape of the concatenated operands.
    fn joined_axis(&self) -> Option<usize> {
        None
    }

    /// Returns the shape of the operands beside the first one, which has the shape `input`.
    fn other_shape(&self, input: &[usize]) -> Vec<usize> {
        input.to_vec()
    }

    /// Returns the number of channels of the operands beside the first one, which has `channels`.
    fn other_channels(&self, channels: usize) -> usize {
        channels
    }

    /// Whether each output value depends on the operands' values at the same position, and on parameters,
    /// alone.
    fn is_pointwise(&self) -> bool {
        false
    }

    /// Returns the kind of convolution that the layer is, if it is one.
    fn convolution(&self) -> Option<Convolution> {
        None
    }

    /// Whether the operands may be swapped.
    fn commutes(&self) -> bool {
        false
    }

    /// Returns the layer's problem for an input of this shape, and the shape of its output.
    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError>;
}
