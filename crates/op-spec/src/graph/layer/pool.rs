//! Pools as layers.

use alloc::vec::Vec;

use super::{GraphLayer, Layer, LayerProblem};
use crate::setters::PerAxis;
use crate::{AdaptiveAvgPoolSpec, AvgPoolSpec, SpecError};

impl Layer {
    /// Returns an average pooling of images, see [`AvgPoolSpec::new`].
    #[must_use]
    pub fn avg_pool2d(kernel_size: impl Into<PerAxis<2>>) -> AvgPoolSpec<2> {
        AvgPoolSpec::new(kernel_size)
    }

    /// Returns an average pooling of volumes, see [`AvgPoolSpec::new`].
    #[must_use]
    pub fn avg_pool3d(kernel_size: impl Into<PerAxis<3>>) -> AvgPoolSpec<3> {
        AvgPoolSpec::new(kernel_size)
    }

    /// Averages images down to this size; with a size of 1, the result is the average of each channel. See
    /// [`AdaptiveAvgPoolSpec`].
    #[must_use]
    pub fn adaptive_avg_pool2d(output_size: impl Into<PerAxis<2>>) -> Layer {
        Layer::AdaptiveAvgPool2d(AdaptiveAvgPoolSpec::new(output_size))
    }

    /// Averages volumes down to this size; see [`AdaptiveAvgPoolSpec`].
    #[must_use]
    pub fn adaptive_avg_pool3d(output_size: impl Into<PerAxis<3>>) -> Layer {
        Layer::AdaptiveAvgPool3d(AdaptiveAvgPoolSpec::new(output_size))
    }
}

/// Implements pools as layers: dimensions, check and problem.
macro_rules! layers {
    ($($Spec:ty: $dimensions:literal, $Variant:ident;)+) => {
        $(impl GraphLayer for $Spec {
            fn dimensions(&self) -> Option<usize> {
                Some($dimensions)
            }

            fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
                self.check().map(|()| Some(channels))
            }

            fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
                let problem = self.problem(input)?;
                let output = problem.output_shape().to_vec();
                Ok((LayerProblem::$Variant(problem), output))
            }
        })+
    };
}

pub(crate) use layers;

layers! {
    AvgPoolSpec<2>: 2, AvgPool2d;
    AvgPoolSpec<3>: 3, AvgPool3d;
    AdaptiveAvgPoolSpec<2>: 2, AdaptiveAvgPool2d;
    AdaptiveAvgPoolSpec<3>: 3, AdaptiveAvgPool3d;
}
