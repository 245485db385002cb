//! Max pools as layers.

use alloc::vec::Vec;

use super::pool::layers;
use super::{GraphLayer, Layer, LayerProblem};
use crate::setters::PerAxis;
use crate::{MaxPoolSpec, SpecError};

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

layers! {
    MaxPoolSpec<2>: 2, MaxPool2d;
    MaxPoolSpec<3>: 3, MaxPool3d;
}
