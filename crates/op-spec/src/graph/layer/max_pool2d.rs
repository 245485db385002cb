//! Max pools as layers, and their form in files.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::MaxPoolSpec;
use crate::SpecError;
use crate::graph::file::{Axes, AxesError, axes, is_false};
use crate::graph::layer::{GraphLayer, Layer, LayerProblem};
use crate::pool::layer::layers;
use crate::setters::PerAxis;

impl Layer {
    /// Returns a max pooling of images, see [`MaxPoolSpec::new`].
    #[must_use]
    pub fn max_pool2d(kernel_size: impl Into<PerAxis<2>>) -> MaxPoolSpec<2> {
        MaxPoolSpec::new(kernel_size)
    }

    /// Returns a max pooling of volumes, see [`MaxPoolSpec::new`].
    #[must_use]
    pub fn max_pool3d(kernel_size: impl Into<PerAxis<3>>) -> MaxPoolSpec<3> {
        MaxPoolSpec::new(kernel_size)
    }
}

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

layers! {
    MaxPoolSpec<2>: 2, MaxPool2d;
    MaxPoolSpec<3>: 3, MaxPool3d;
}
