//! A chain as it is written down: one object for each layer, attributes that are PyTorch's defaults left out.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Chain;
use super::error::ChainError;
use super::layer::{ConvLayer, GroupNormLayer, InstanceNormLayer, Layer, ScaleLayer};
use super::parameters::Initialisation;
use crate::{ChannelMaxSpec, ClampSpec, ConvSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec};

/// See [`Chain`] for an example.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChainFile {
    in_channels: usize,
    layers: Vec<LayerFile>,
}

/// A number for all axes, or one for each.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Axes {
    All(usize),
    Each(Vec<usize>),
}

impl Axes {
    /// One number where they are all the same.
    fn of(values: &[usize]) -> Axes {
        match values {
            [first, rest @ ..] if rest.iter().all(|value| value == first) => Axes::All(*first),
            _ => Axes::Each(values.to_vec()),
        }
    }

    /// The same, or nothing where all are `default`.
    fn unless(values: &[usize], default: usize) -> Option<Axes> {
        let is_default = values.iter().all(|&value| value == default);
        (!is_default).then(|| Axes::of(values))
    }

    fn values<const D: usize>(
        &self,
        layer: usize,
        name: &'static str,
    ) -> Result<[usize; D], ChainError> {
        match self {
            Axes::All(value) => Ok([*value; D]),
            Axes::Each(values) => values.as_slice().try_into().map_err(|_| ChainError::Axes {
                layer,
                name,
                actual: values.len(),
                expected: D,
            }),
        }
    }
}

/// The values of an attribute that may be left out.
fn axes<const D: usize>(
    layer: usize,
    name: &'static str,
    values: Option<&Axes>,
    default: usize,
) -> Result<[usize; D], ChainError> {
    values.map_or(Ok([default; D]), |values| values.values(layer, name))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConvFile {
    name: String,
    out_channels: usize,
    kernel_size: Axes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stride: Option<Axes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    padding: Option<Axes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dilation: Option<Axes>,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    groups: usize,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    bias: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupNormFile {
    name: String,
    num_groups: usize,
    #[serde(default = "eps")]
    eps: f64,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    affine: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InstanceNormFile {
    name: String,
    #[serde(default = "eps")]
    eps: f64,
    #[serde(default, skip_serializing_if = "is_false")]
    affine: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScaleFile {
    name: String,
    #[serde(default = "ones")]
    initialisation: Initialisation,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MaxPool2dFile {
    kernel_size: Axes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stride: Option<Axes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    padding: Option<Axes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dilation: Option<Axes>,
    #[serde(default, skip_serializing_if = "is_false")]
    ceil_mode: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClampFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
}

/// A layer without attributes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LayerFile {
    Conv2d(ConvFile),
    Conv3d(ConvFile),
    GroupNorm(GroupNormFile),
    InstanceNorm(InstanceNormFile),
    Scale(ScaleFile),
    MaxPool2d(MaxPool2dFile),
    Clamp(ClampFile),
    ChannelMax(Plain),
}

fn one() -> usize {
    1
}

fn is_one(value: &usize) -> bool {
    *value == 1
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn eps() -> f64 {
    InstanceNormSpec::default().eps
}

fn ones() -> Initialisation {
    Initialisation::Ones
}

impl TryFrom<ChainFile> for Chain {
    type Error = ChainError;

    fn try_from(file: ChainFile) -> Result<Chain, ChainError> {
        let layers = file.layers.into_iter().enumerate();
        let layers: Result<Vec<Layer>, ChainError> =
            layers.map(|(index, layer)| layer.read(index)).collect();
        Chain::new(file.in_channels, layers?)
    }
}

impl From<Chain> for ChainFile {
    fn from(chain: Chain) -> ChainFile {
        ChainFile {
            in_channels: chain.in_channels,
            layers: chain.layers.into_iter().map(LayerFile::of).collect(),
        }
    }
}

impl ConvFile {
    fn read<const D: usize>(self, layer: usize) -> Result<ConvLayer<D>, ChainError> {
        Ok(ConvLayer {
            kernel_size: self.kernel_size.values(layer, "kernel_size")?,
            attributes: ConvSpec {
                stride: axes(layer, "stride", self.stride.as_ref(), 1)?,
                padding: axes(layer, "padding", self.padding.as_ref(), 0)?,
                dilation: axes(layer, "dilation", self.dilation.as_ref(), 1)?,
                groups: self.groups,
            },
            name: self.name,
            out_channels: self.out_channels,
            bias: self.bias,
        })
    }

    fn of<const D: usize>(layer: ConvLayer<D>) -> ConvFile {
        let attributes = layer.attributes;
        ConvFile {
            name: layer.name,
            out_channels: layer.out_channels,
            kernel_size: Axes::of(&layer.kernel_size),
            stride: Axes::unless(&attributes.stride, 1),
            padding: Axes::unless(&attributes.padding, 0),
            dilation: Axes::unless(&attributes.dilation, 1),
            groups: attributes.groups,
            bias: layer.bias,
        }
    }
}

impl MaxPool2dFile {
    fn read(self, layer: usize) -> Result<MaxPool2dSpec, ChainError> {
        let stride = self.stride.as_ref();
        Ok(MaxPool2dSpec {
            kernel_size: self.kernel_size.values(layer, "kernel_size")?,
            stride: stride
                .map(|stride| stride.values(layer, "stride"))
                .transpose()?,
            padding: axes(layer, "padding", self.padding.as_ref(), 0)?,
            dilation: axes(layer, "dilation", self.dilation.as_ref(), 1)?,
            ceil_mode: self.ceil_mode,
        })
    }

    fn of(attributes: MaxPool2dSpec) -> MaxPool2dFile {
        MaxPool2dFile {
            kernel_size: Axes::of(&attributes.kernel_size),
            stride: attributes.stride.map(|stride| Axes::of(&stride)),
            padding: Axes::unless(&attributes.padding, 0),
            dilation: Axes::unless(&attributes.dilation, 1),
            ceil_mode: attributes.ceil_mode,
        }
    }
}

impl LayerFile {
    fn read(self, layer: usize) -> Result<Layer, ChainError> {
        Ok(match self {
            LayerFile::Conv2d(file) => Layer::Conv2d(file.read(layer)?),
            LayerFile::Conv3d(file) => Layer::Conv3d(file.read(layer)?),
            LayerFile::GroupNorm(file) => Layer::GroupNorm(GroupNormLayer {
                name: file.name,
                attributes: GroupNormSpec {
                    num_groups: file.num_groups,
                    eps: file.eps,
                },
                affine: file.affine,
            }),
            LayerFile::InstanceNorm(file) => Layer::InstanceNorm(InstanceNormLayer {
                name: file.name,
                attributes: InstanceNormSpec { eps: file.eps },
                affine: file.affine,
            }),
            LayerFile::Scale(file) => Layer::Scale(ScaleLayer {
                name: file.name,
                initialisation: file.initialisation,
            }),
            LayerFile::MaxPool2d(file) => Layer::MaxPool2d(file.read(layer)?),
            LayerFile::Clamp(file) => Layer::Clamp(ClampSpec {
                min: file.min,
                max: file.max,
            }),
            LayerFile::ChannelMax(Plain {}) => Layer::ChannelMax(ChannelMaxSpec),
        })
    }

    fn of(layer: Layer) -> LayerFile {
        match layer {
            Layer::Conv2d(layer) => LayerFile::Conv2d(ConvFile::of(layer)),
            Layer::Conv3d(layer) => LayerFile::Conv3d(ConvFile::of(layer)),
            Layer::GroupNorm(layer) => LayerFile::GroupNorm(GroupNormFile {
                name: layer.name,
                num_groups: layer.attributes.num_groups,
                eps: layer.attributes.eps,
                affine: layer.affine,
            }),
            Layer::InstanceNorm(layer) => LayerFile::InstanceNorm(InstanceNormFile {
                name: layer.name,
                eps: layer.attributes.eps,
                affine: layer.affine,
            }),
            Layer::Scale(layer) => LayerFile::Scale(ScaleFile {
                name: layer.name,
                initialisation: layer.initialisation,
            }),
            Layer::MaxPool2d(attributes) => LayerFile::MaxPool2d(MaxPool2dFile::of(attributes)),
            Layer::Clamp(ClampSpec { min, max }) => LayerFile::Clamp(ClampFile { min, max }),
            Layer::ChannelMax(ChannelMaxSpec) => LayerFile::ChannelMax(Plain {}),
        }
    }
}
