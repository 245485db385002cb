//! The attributes of pools in files.

use serde::{Deserialize, Serialize};

use super::{AdaptiveAvgPoolSpec, AvgPoolSpec};
use crate::attributes::{Axes, AxesError, axes, is_false, is_true, yes};

/// The attributes of an average pooling in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
pub(super) struct AverageFile {
    kernel_size: Axes,
    #[serde(skip_serializing_if = "Option::is_none")]
    stride: Option<Axes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    padding: Option<Axes>,
    #[serde(default, skip_serializing_if = "is_false")]
    ceil_mode: bool,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    count_include_pad: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    divisor_override: Option<i64>,
}

#[doc(hidden)] // only for serde
impl<const D: usize> TryFrom<AverageFile> for AvgPoolSpec<D> {
    type Error = AxesError;

    fn try_from(file: AverageFile) -> Result<Self, AxesError> {
        let stride = file.stride.as_ref();
        Ok(Self {
            kernel_size: file.kernel_size.values("kernel_size")?,
            stride: stride.map(|stride| stride.values("stride")).transpose()?,
            padding: axes("padding", file.padding.as_ref(), 0)?,
            ceil_mode: file.ceil_mode,
            count_include_pad: file.count_include_pad,
            divisor_override: file.divisor_override,
        })
    }
}

impl<const D: usize> From<AvgPoolSpec<D>> for AverageFile {
    fn from(spec: AvgPoolSpec<D>) -> Self {
        Self {
            kernel_size: Axes::of(&spec.kernel_size),
            stride: spec.stride.map(|stride| Axes::of(&stride)),
            padding: Axes::unless(&spec.padding, 0),
            ceil_mode: spec.ceil_mode,
            count_include_pad: spec.count_include_pad,
            divisor_override: spec.divisor_override,
        }
    }
}

/// The attributes of an adaptive average pooling in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
pub(super) struct AdaptiveFile {
    output_size: Axes,
}

#[doc(hidden)] // only for serde
impl<const D: usize> TryFrom<AdaptiveFile> for AdaptiveAvgPoolSpec<D> {
    type Error = AxesError;

    fn try_from(file: AdaptiveFile) -> Result<Self, AxesError> {
        Ok(Self {
            output_size: file.output_size.values("output_size")?,
        })
    }
}

impl<const D: usize> From<AdaptiveAvgPoolSpec<D>> for AdaptiveFile {
    fn from(spec: AdaptiveAvgPoolSpec<D>) -> Self {
        Self {
            output_size: Axes::of(&spec.output_size),
        }
    }
}
