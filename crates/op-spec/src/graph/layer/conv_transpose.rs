//! Transposed convolutions as layers of a chain.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::conv::{convolution_layers, weight_and_bias};
use super::{Convolution, Flow, GraphLayer, Layer, LayerProblem};
use crate::attributes::{Axes, AxesError, axes, is_one, is_true, one, yes};
use crate::graph::parameters::Wanted;
use crate::setters::{PerAxis, setters};
use crate::{ConvTransposeProblem, ConvTransposeSpec, SpecError};

convolution_layers! {
    /// A transposed convolution, as `torch.nn.ConvTranspose1d`, `torch.nn.ConvTranspose2d` and
    /// `torch.nn.ConvTranspose3d` describe it. The number of input channels follows from the layer's input.
    ///
    /// ```
    /// # use op_spec as convfuse;
    /// use convfuse::graph::{Chain, Layer};
    ///
    /// let up = Layer::conv_transpose2d("up", 64, 2).stride(2);
    /// let chain = Chain::new(128, [up])?;
    /// assert_eq!(chain.problem(&[1, 128, 16, 20])?.output_shape(), [1, 64, 32, 40]);
    /// # Ok::<(), op_spec::graph::GraphError>(())
    /// ```
    ConvTransposeLayer(ConvTransposeSpec, ConvTransposeProblem) is Transposed;
    /// A transposed convolution of sequences, see [`ConvTransposeLayer::new`].
    fn conv_transpose1d = 1;
    /// A transposed convolution of images, see [`ConvTransposeLayer::new`].
    fn conv_transpose2d = 2;
    /// A transposed convolution of volumes, see [`ConvTransposeLayer::new`].
    fn conv_transpose3d = 3;
    file ConvTransposeFile("ConvTransposeFile", AxesError) {
        #[serde(skip_serializing_if = "Option::is_none")]
        padding: Option<Axes> = |padding| axes("padding", padding.as_ref(), 0)?,
            |padding| Axes::unless(&padding, 0);
        #[serde(skip_serializing_if = "Option::is_none")]
        output_padding: Option<Axes> = |padding| axes("output_padding", padding.as_ref(), 0)?,
            |padding| Axes::unless(&padding, 0);
    }
}

impl<const D: usize> ConvTransposeLayer<D> {
    /// Returns the shape of the filter for inputs with `in_channels` channels. The groups divide the output
    /// channels.
    #[must_use]
    pub fn weight_shape(&self, in_channels: usize) -> Vec<usize> {
        let of_group = self.out_channels / self.attributes.groups.max(1);
        let mut shape = vec![in_channels, of_group];
        shape.extend_from_slice(&self.kernel_size);
        shape
    }
}

setters! {
    [const D: usize] ConvTransposeLayer<D> {
        /// Sets all attributes.
        attributes(attributes: ConvTransposeSpec<D>) |layer| layer.attributes = attributes;
        /// Sets the stride: the step in the output from one input element's products to the next one's.
        stride(stride: impl Into<PerAxis<D>>) |layer| layer.attributes.stride = stride.into().0;
        /// Sets the number of elements cut off at both ends of all axes or of each axis.
        padding(padding: impl Into<PerAxis<D>>) |layer| layer.attributes.padding = padding.into().0;
        /// Sets the number of elements added at the end of all axes or of each axis.
        output_padding(more: impl Into<PerAxis<D>>) |layer| layer.attributes.output_padding = more.into().0;
        /// Sets the step between the elements of a filter.
        dilation(dilation: impl Into<PerAxis<D>>) |layer| layer.attributes.dilation = dilation.into().0;
        /// Sets the number of groups.
        groups(groups: usize) |layer| layer.attributes.groups = groups;
        /// Sets whether the layer adds a bias.
        bias(bias: bool) |layer| layer.bias = bias;
    }
}
