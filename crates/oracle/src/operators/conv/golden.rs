//! Golden files of convolutions.

use op_spec::graph::ConvLayer;
use op_spec::{ConvSpec, Padding, PaddingMode};
use serde::Deserialize;

use super::cases::conv;
use crate::golden_file::{GoldenFlaw, Reader};

/// The chain's names of the parameters, and those of golden files.
pub(super) const NAMES: [(&str, &str); 2] = [("conv.weight", "weight"), ("conv.bias", "bias")];

#[derive(Deserialize)]
#[serde(bound(deserialize = "[usize; D]: Deserialize<'de>"))]
struct Attributes<const D: usize> {
    stride: [usize; D],
    padding: FilePadding<D>,
    #[serde(default)]
    padding_mode: PaddingMode,
    dilation: [usize; D],
    groups: usize,
}

/// A padding as PyTorch is given it.
#[derive(Deserialize)]
#[serde(bound(deserialize = "[usize; D]: Deserialize<'de>"))]
#[serde(untagged)]
enum FilePadding<const D: usize> {
    Each([usize; D]),
    Rule(Rule),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rule {
    Same,
    Valid,
}

pub(super) fn layer<const D: usize>(file: &Reader) -> Result<ConvLayer<D>, GoldenFlaw>
where
    [usize; D]: for<'a> Deserialize<'a>,
{
    let attributes: Attributes<D> = file.attributes()?;
    let attributes = ConvSpec {
        stride: attributes.stride,
        padding: match attributes.padding {
            FilePadding::Each(each) => Padding::Each(each),
            FilePadding::Rule(Rule::Same) => Padding::Same,
            FilePadding::Rule(Rule::Valid) => Padding::Valid,
        },
        padding_mode: attributes.padding_mode,
        dilation: attributes.dilation,
        groups: attributes.groups,
    };
    read_layer(file, attributes)
}

/// The convolution of a file, which any chain with one names so.
pub(crate) fn read_layer<const D: usize>(
    file: &Reader,
    attributes: ConvSpec<D>,
) -> Result<ConvLayer<D>, GoldenFlaw> {
    let (out_channels, kernel_size) = file.filter::<D>()?;
    Ok(conv(
        out_channels,
        kernel_size,
        file.has("bias"),
        attributes,
    ))
}
