//! Layers: PyTorch's modules with their attributes, and what flows between them.

use alloc::string::String;
use alloc::vec::Vec;

use super::error::ChainError;
use super::parameters::Initialisation;
use crate::{
    ChannelMaxSpec, ClampSpec, ConvSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec, SpecError,
};

/// A convolution, as `torch.nn.Conv2d` and `torch.nn.Conv3d` describe it; input channels are those of what it is given.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvLayer<const D: usize> {
    /// Prefix of its parameters: `name.weight`, `name.bias`.
    pub name: String,
    /// Channels of the output.
    pub out_channels: usize,
    /// Extents of the filter.
    pub kernel_size: [usize; D],
    /// Stride, padding, dilation, groups.
    pub attributes: ConvSpec<D>,
    /// Whether it adds a bias.
    pub bias: bool,
}

impl<const D: usize> ConvLayer<D> {
    /// PyTorch's defaults: stride 1, no padding, no gaps, one group, a bias.
    #[must_use]
    pub fn new(name: &str, out_channels: usize, kernel_size: [usize; D]) -> Self {
        Self {
            name: name.into(),
            out_channels,
            kernel_size,
            attributes: ConvSpec::default(),
            bias: true,
        }
    }

    /// The shape of the filter for inputs with `in_channels` channels, which the groups divide.
    #[must_use]
    pub fn weight_shape(&self, in_channels: usize) -> Vec<usize> {
        let mut shape = alloc::vec![
            self.out_channels,
            in_channels / self.attributes.groups.max(1)
        ];
        shape.extend_from_slice(&self.kernel_size);
        shape
    }
}

/// A group norm, as `torch.nn.GroupNorm` describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupNormLayer {
    /// Prefix of its parameters: `name.weight`, `name.bias`.
    pub name: String,
    /// Groups and eps.
    pub attributes: GroupNormSpec,
    /// Whether it has a weight and a bias.
    pub affine: bool,
}

/// An instance norm, as `torch.nn.InstanceNorm2d` and `torch.nn.InstanceNorm3d` describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceNormLayer {
    /// Prefix of its parameters: `name.weight`, `name.bias`.
    pub name: String,
    /// Eps.
    pub attributes: InstanceNormSpec,
    /// Whether it has a weight and a bias.
    pub affine: bool,
}

/// A product with one factor per channel, PyTorch's `x * factor` with `factor` of shape `(c, 1, 1)` for images.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleLayer {
    /// Name of the factor. Layers of the same name share it.
    pub name: String,
    /// What the factor is before training.
    pub initialisation: Initialisation,
}

/// One step of a chain.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Layer {
    /// A convolution of images.
    Conv2d(ConvLayer<2>),
    /// A convolution of volumes.
    Conv3d(ConvLayer<3>),
    /// A norm of groups of channels.
    GroupNorm(GroupNormLayer),
    /// A norm of every channel by itself.
    InstanceNorm(InstanceNormLayer),
    /// A product with one factor per channel.
    Scale(ScaleLayer),
    /// The maximum of windows of images.
    MaxPool2d(MaxPool2dSpec),
    /// Values limited to an interval.
    Clamp(ClampSpec),
    /// The maximum over the channels; the output lacks dimension 1.
    ChannelMax(ChannelMaxSpec),
}

impl Layer {
    /// A convolution of images.
    #[must_use]
    pub fn conv2d(layer: ConvLayer<2>) -> Layer {
        Layer::Conv2d(layer)
    }

    /// A convolution of volumes.
    #[must_use]
    pub fn conv3d(layer: ConvLayer<3>) -> Layer {
        Layer::Conv3d(layer)
    }

    /// A group norm with PyTorch's defaults: eps 1e-5, weight and bias.
    #[must_use]
    pub fn group_norm(name: &str, num_groups: usize) -> Layer {
        Layer::GroupNorm(GroupNormLayer {
            name: name.into(),
            attributes: GroupNormSpec::new(num_groups),
            affine: true,
        })
    }

    /// An instance norm with PyTorch's defaults: eps 1e-5, neither weight nor bias.
    #[must_use]
    pub fn instance_norm(name: &str) -> Layer {
        Layer::InstanceNorm(InstanceNormLayer {
            name: name.into(),
            attributes: InstanceNormSpec::default(),
            affine: false,
        })
    }

    /// A product with a factor that is 1 before training.
    #[must_use]
    pub fn scale(name: &str) -> Layer {
        Layer::Scale(ScaleLayer {
            name: name.into(),
            initialisation: Initialisation::Ones,
        })
    }

    /// The maximum of windows.
    #[must_use]
    pub const fn max_pool2d(attributes: MaxPool2dSpec) -> Layer {
        Layer::MaxPool2d(attributes)
    }

    /// A clamp with both bounds.
    #[must_use]
    pub const fn clamp(min: f64, max: f64) -> Layer {
        Layer::Clamp(ClampSpec::new(min, max))
    }

    /// The maximum over the channels.
    #[must_use]
    pub const fn channel_max() -> Layer {
        Layer::ChannelMax(ChannelMaxSpec)
    }

    /// The operator's name, as the functions that compute it have it.
    #[must_use]
    pub const fn operator(&self) -> &'static str {
        match self {
            Layer::Conv2d(_) => "conv2d",
            Layer::Conv3d(_) => "conv3d",
            Layer::GroupNorm(_) => "group_norm",
            Layer::InstanceNorm(_) => "instance_norm",
            Layer::Scale(_) => "scale",
            Layer::MaxPool2d(_) => "max_pool2d",
            Layer::Clamp(_) => "clamp",
            Layer::ChannelMax(_) => "channel_max",
        }
    }

    /// The spatial dimensions that the layer takes, if not any.
    const fn dimensions(&self) -> Option<usize> {
        match self {
            Layer::Conv2d(_) | Layer::MaxPool2d(_) => Some(2),
            Layer::Conv3d(_) => Some(3),
            _ => None,
        }
    }

    /// Whether the layer takes values one by one, of whatever shape.
    const fn is_pointwise(&self) -> bool {
        matches!(self, Layer::Clamp(_))
    }

    /// Checks the attributes for an input with these channels, and gives the output's.
    fn check(&self, channels: usize) -> Result<usize, SpecError> {
        match self {
            Layer::Conv2d(layer) => layer.check(channels),
            Layer::Conv3d(layer) => layer.check(channels),
            Layer::GroupNorm(layer) => layer.attributes.check(channels).map(|()| channels),
            Layer::InstanceNorm(layer) => layer.attributes.check().map(|()| channels),
            Layer::MaxPool2d(attributes) => attributes.check().map(|()| channels),
            Layer::Clamp(attributes) => attributes.bounds().map(|_| channels),
            Layer::Scale(_) | Layer::ChannelMax(_) => Ok(channels),
        }
    }
}

impl<const D: usize> ConvLayer<D> {
    fn check(&self, in_channels: usize) -> Result<usize, SpecError> {
        self.attributes
            .check(in_channels, self.out_channels, self.kernel_size)?;
        Ok(self.out_channels)
    }
}

/// What a layer is given, as far as it does not depend on the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// Channels, until a maximum over them.
    pub(super) channels: Option<usize>,
    /// Spatial dimensions, from the first layer on that has a fixed number of them.
    pub(super) dimensions: Option<usize>,
}

/// What each layer is given.
///
/// # Errors
/// Those of [`Chain::new`](super::Chain::new), but for parameters.
pub(super) fn flow(in_channels: usize, layers: &[Layer]) -> Result<Vec<Flow>, ChainError> {
    // The first layer with a fixed number of dimensions tells that of the input, too.
    let dimensions = layers.iter().find_map(Layer::dimensions);
    let mut flow = Flow {
        channels: Some(in_channels),
        dimensions,
    };
    let mut flows = Vec::with_capacity(layers.len());
    for (index, layer) in layers.iter().enumerate() {
        flows.push(flow);
        let operator = layer.operator();
        let Some(channels) = flow.channels else {
            if layer.is_pointwise() {
                layer.check(0).map_err(|source| ChainError::Layer {
                    layer: index,
                    source,
                })?;
                continue;
            }
            return Err(ChainError::NoChannels {
                layer: index,
                operator,
            });
        };
        if let (Some(actual), Some(expected)) = (flow.dimensions, layer.dimensions())
            && actual != expected
        {
            return Err(ChainError::Dimensions {
                layer: index,
                operator,
                actual,
                expected,
            });
        }
        let channels = layer.check(channels).map_err(|source| ChainError::Layer {
            layer: index,
            source,
        })?;
        let keeps = !matches!(layer, Layer::ChannelMax(_));
        flow.channels = keeps.then_some(channels);
    }
    Ok(flows)
}
