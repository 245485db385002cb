//! The attributes of max pools in files.

use serde::{Deserialize, Serialize};

use super::MaxPoolSpec;
use crate::attributes::{Axes, AxesError, axes, is_false};

/// The attributes of a max pooling in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
pub(super) struct MaximumFile {
    kernel_size: Axes,
    #[serde(skip_serializing_if = "Option::is_none")]
    stride: Option<Axes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    padding: Option<Axes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dilation: Option<Axes>,
    #[serde(default, skip_serializing_if = "is_false")]
    ceil_mode: bool,
}

#[doc(hidden)] // only for serde
impl<const D: usize> TryFrom<MaximumFile> for MaxPoolSpec<D> {
    type Error = AxesError;

    fn try_from(file: MaximumFile) -> Result<Self, AxesError> {
        let stride = file.stride.as_ref();
        Ok(Self {
            kernel_size: file.kernel_size.values("kernel_size")?,
            stride: stride.map(|stride| stride.values("stride")).transpose()?,
            padding: axes("padding", file.padding.as_ref(), 0)?,
            dilation: axes("dilation", file.dilation.as_ref(), 1)?,
            ceil_mode: file.ceil_mode,
        })
    }
}

impl<const D: usize> From<MaxPoolSpec<D>> for MaximumFile {
    fn from(spec: MaxPoolSpec<D>) -> Self {
        Self {
            kernel_size: Axes::of(&spec.kernel_size),
            stride: spec.stride.map(|stride| Axes::of(&stride)),
            padding: Axes::unless(&spec.padding, 0),
            dilation: Axes::unless(&spec.dilation, 1),
            ceil_mode: spec.ceil_mode,
        }
    }
}
