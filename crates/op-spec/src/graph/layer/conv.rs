//! Convolutions as layers of a chain.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use super::{Convolution, Flow, GraphLayer, Layer, LayerProblem};
use crate::attributes::{Axes, AxesError, axes, is_one, is_true, one, yes};
use crate::graph::Initialisation;
use crate::graph::parameters::{Wanted, unless};
use crate::setters::{PerAxis, setters};
use crate::{ConvProblem, ConvSpec, Padding, PaddingMode, SpecError};

/// Defines the layers of a kind of convolutions: their fields, their constructors, their part in a graph, and
/// their form in files, where some attributes have their own types, errors and conversions.
macro_rules! convolution_layers {
    (
        $(#[$doc:meta])*
        $Layer:ident($Spec:ident, $Problem:ident) is $Kind:ident;
        $($(#[$of_rank:meta])* fn $name:ident = $rank:literal;)+
        file $File:ident($file:literal, $Error:ty) {$(
            $(#[$serde:meta])*
            $field:ident: $Field:ty = |$read:ident| $attribute:expr, |$written:ident| $value:expr;
        )+}
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(try_from = $file, into = $file)]
        #[non_exhaustive]
        pub struct $Layer<const D: usize> {
            /// Prefix of its parameters: `name.weight`, `name.bias`.
            pub name: String,
            /// Channels of the output.
            pub out_channels: usize,
            /// Extents of the filter.
            pub kernel_size: [usize; D],
            /// Stride, padding, dilation, groups.
            pub attributes: $Spec<D>,
            /// Whether the layer adds a bias.
            pub bias: bool,
        }

        #[derive(Serialize, Deserialize)]
        #[serde(deny_unknown_fields, expecting = "an object of attributes")]
        struct $File {
            name: String,
            out_channels: usize,
            kernel_size: Axes,
            #[serde(skip_serializing_if = "Option::is_none")]
            stride: Option<Axes>,
            $($(#[$serde])* $field: $Field,)+
            #[serde(skip_serializing_if = "Option::is_none")]
            dilation: Option<Axes>,
            #[serde(default = "one", skip_serializing_if = "is_one")]
            groups: usize,
            #[serde(default = "yes", skip_serializing_if = "is_true")]
            bias: bool,
        }

        #[doc(hidden)] // only for serde
        impl<const D: usize> TryFrom<$File> for $Layer<D> {
            type Error = $Error;

            fn try_from(file: $File) -> Result<Self, $Error> {
                let kernel_size = file.kernel_size.values("kernel_size")?;
                let stride = axes("stride", file.stride.as_ref(), 1)?;
                $(let $field = {
                    let $read = file.$field;
                    $attribute
                };)+
                Ok(Self {
                    kernel_size,
                    attributes: $Spec {
                        stride,
                        $($field,)+
                        dilation: axes("dilation", file.dilation.as_ref(), 1)?,
                        groups: file.groups,
                    },
                    name: file.name,
                    out_channels: file.out_channels,
                    bias: file.bias,
                })
            }
        }

        impl<const D: usize> From<$Layer<D>> for $File {
            fn from(layer: $Layer<D>) -> Self {
                let attributes = layer.attributes;
                $(let $field = {
                    let $written = attributes.$field;
                    $value
                };)+
                Self {
                    name: layer.name,
                    out_channels: layer.out_channels,
                    kernel_size: Axes::of(&layer.kernel_size),
                    stride: Axes::unless(&attributes.stride, 1),
                    $($field,)+
                    dilation: Axes::unless(&attributes.dilation, 1),
                    groups: attributes.groups,
                    bias: layer.bias,
                }
            }
        }

        impl<const D: usize> $Layer<D> {
            /// PyTorch's defaults: stride 1, no padding, dilation 1, one group, a bias.
            #[must_use]
            pub fn new(
                name: impl Into<String>,
                out_channels: usize,
                kernel_size: impl Into<PerAxis<D>>,
            ) -> Self {
                Self {
                    name: name.into(),
                    out_channels,
                    kernel_size: kernel_size.into().0,
                    attributes: $Spec::default(),
                    bias: true,
                }
            }
        }

        impl Layer {$(
            $(#[$of_rank])*
            #[must_use]
            pub fn $name(
                name: impl Into<String>,
                out_channels: usize,
                kernel_size: impl Into<PerAxis<$rank>>,
            ) -> $Layer<$rank> {
                $Layer::new(name, out_channels, kernel_size)
            }
        )+}

        impl<const D: usize> GraphLayer for $Layer<D>
        where
            LayerProblem: From<$Problem<D>>,
        {
            fn dimensions(&self) -> Option<usize> {
                Some(D)
            }

            fn convolution(&self) -> Option<Convolution> {
                Some(Convolution::$Kind)
            }

            fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
                let (filters, kernel_size) = (self.out_channels, self.kernel_size);
                self.attributes.check(channels, filters, kernel_size)?;
                Ok(Some(filters))
            }

            fn name(&self) -> &str {
                &self.name
            }

            fn parameters(&self, flow: &Flow) -> Vec<Wanted> {
                let shape = self.weight_shape(flow.channels.unwrap_or(0));
                weight_and_bias(shape, self.out_channels, self.bias)
            }

            fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
                // Without an axis of channels the filter has 0 of them; the specification then refuses the
                // rank.
                let weight = self.weight_shape(input.get(1).copied().unwrap_or(0));
                let bias = [self.out_channels];
                let bias = self.bias.then_some(&bias[..]);
                let problem = self.attributes.problem(input, &weight, bias)?;
                Ok((problem.into(), problem.output_shape().to_vec()))
            }
        }
    };
}
pub(crate) use convolution_layers;

convolution_layers! {
    /// A convolution, as `torch.nn.Conv1d`, `torch.nn.Conv2d` and `torch.nn.Conv3d` describe it. The number
    /// of input channels follows from the layer's input.
    ///
    /// ```
    /// # use op_spec as convfuse;
    /// use convfuse::graph::{Chain, Layer};
    ///
    /// let conv = Layer::conv3d("conv", 32, 3).stride([1, 2, 2]).padding(1).bias(false);
    /// let chain = Chain::new(4, [conv])?;
    /// assert_eq!(chain.problem(&[1, 4, 8, 16, 16])?.output_shape(), [1, 32, 8, 8, 8]);
    /// # Ok::<(), op_spec::graph::GraphError>(())
    /// ```
    ConvLayer(ConvSpec, ConvProblem) is Ordinary;
    /// A convolution of sequences, see [`ConvLayer::new`].
    fn conv1d = 1;
    /// A convolution of images, see [`ConvLayer::new`].
    fn conv2d = 2;
    /// A convolution of volumes, see [`ConvLayer::new`].
    fn conv3d = 3;
    file ConvFile("ConvFile", ConvFileError) {
        #[serde(skip_serializing_if = "Option::is_none")]
        padding: Option<PaddingFile> = |padding| match padding {
            None => Padding::default(),
            Some(padding) => padding.read()?,
        }, |padding| PaddingFile::of(padding);
        #[serde(default, skip_serializing_if = "is_zeros")]
        padding_mode: PaddingMode = |mode| mode, |mode| mode;
    }
}

impl<const D: usize> ConvLayer<D> {
    /// The shape of the filter for inputs with `in_channels` channels, which the groups divide.
    #[must_use]
    pub fn weight_shape(&self, in_channels: usize) -> Vec<usize> {
        let mut shape = vec![
            self.out_channels,
            in_channels / self.attributes.groups.max(1),
        ];
        shape.extend_from_slice(&self.kernel_size);
        shape
    }
}

setters! {
    [const D: usize] ConvLayer<D> {
        /// Sets all attributes.
        attributes(attributes: ConvSpec<D>) |layer| layer.attributes = attributes;
        /// Sets the step between windows.
        stride(stride: impl Into<PerAxis<D>>) |layer| layer.attributes.stride = stride.into().0;
        /// Sets the padding: elements on both sides of all axes or of each axis, or a [`Padding`].
        padding(padding: impl Into<Padding<D>>) |layer| layer.attributes.padding = padding.into();
        /// Sets the padding mode.
        padding_mode(mode: PaddingMode) |layer| layer.attributes.padding_mode = mode;
        /// Sets the step between the elements of a window.
        dilation(dilation: impl Into<PerAxis<D>>) |layer| layer.attributes.dilation = dilation.into().0;
        /// Sets the number of groups.
        groups(groups: usize) |layer| layer.attributes.groups = groups;
        /// Sets whether the layer adds a bias.
        bias(bias: bool) |layer| layer.bias = bias;
    }
}

/// Padding in a file: numbers, or the name of a rule.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected `same`, `valid`, a number that is not negative, or one for each axis"
)]
enum PaddingFile {
    Named(String),
    Axes(Axes),
}

impl PaddingFile {
    fn of<const D: usize>(padding: Padding<D>) -> Option<Self> {
        match padding {
            Padding::Same => Some(Self::Named("same".into())),
            Padding::Valid => Some(Self::Named("valid".into())),
            Padding::Each(each) => Axes::unless(&each, 0).map(Self::Axes),
        }
    }

    fn read<const D: usize>(&self) -> Result<Padding<D>, ConvFileError> {
        match self {
            Self::Named(name) => match name.as_str() {
                "same" => Ok(Padding::Same),
                "valid" => Ok(Padding::Valid),
                _ => Err(ConvFileError::Padding(name.clone())),
            },
            Self::Axes(axes) => Ok(Padding::Each(axes.values("padding")?)),
        }
    }
}

fn is_zeros(mode: &PaddingMode) -> bool {
    *mode == PaddingMode::Zeros
}

/// An error in the attributes of a convolution in a file.
enum ConvFileError {
    Axes(AxesError),
    Padding(String),
}

impl From<AxesError> for ConvFileError {
    fn from(error: AxesError) -> Self {
        Self::Axes(error)
    }
}

impl fmt::Display for ConvFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Axes(error) => error.fmt(f),
            Self::Padding(name) => write!(
                f,
                "padding is `{name}`, expected `same`, `valid`, a number or one for each axis"
            ),
        }
    }
}

/// Returns the parameters of a convolution with a filter of this shape. As in PyTorch, the second extent of
/// the filter determines `fan_in`, also for transposed convolutions.
pub(crate) fn weight_and_bias(
    shape: Vec<usize>,
    out_channels: usize,
    has_bias: bool,
) -> Vec<Wanted> {
    // The product may saturate: an absurd filter is refused later, together with its input.
    let fan_in =
        (shape[1..].iter()).fold(1, |product: usize, &extent| product.saturating_mul(extent));
    let initialisation = Initialisation::Uniform { fan_in };
    let wanted = |suffix, shape, absent_without| Wanted {
        suffix,
        shape,
        initialisation,
        absent_without,
    };
    vec![
        wanted(".weight", shape, None),
        wanted(".bias", vec![out_channels], unless(has_bias, "bias")),
    ]
}
