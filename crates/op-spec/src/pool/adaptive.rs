//! The average of all positions of each channel.

use super::{AdaptiveAvgPoolProblem, PoolProblem, Pooled, as_volume, batch_of};
use crate::SpecError;
use crate::error::Quantity;
use crate::shape::elements;

/// Attributes of adaptive average pooling of images (`D` = 2) or volumes (3) to one value for each channel;
/// see
/// [`torch.nn.functional.adaptive_avg_pool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool2d.html)
/// and
/// [`adaptive_avg_pool3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool3d.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "super::layer::AdaptiveFile",
        into = "super::layer::AdaptiveFile"
    )
)]
#[non_exhaustive]
pub struct AdaptiveAvgPoolSpec<const D: usize> {
    /// Extents of the output, all 1: others are refused.
    pub output_size: [usize; D],
}

/// Attributes of adaptive average pooling of images.
pub type AdaptiveAvgPool2dSpec = AdaptiveAvgPoolSpec<2>;
/// Attributes of adaptive average pooling of volumes.
pub type AdaptiveAvgPool3dSpec = AdaptiveAvgPoolSpec<3>;

impl<const D: usize> Default for AdaptiveAvgPoolSpec<D> {
    /// One value for each channel.
    fn default() -> Self {
        Self {
            output_size: [1; D],
        }
    }
}

impl<const D: usize> AdaptiveAvgPoolSpec<D> {
    const OPERATOR: &str = if D == 2 {
        "adaptive_avg_pool2d"
    } else {
        "adaptive_avg_pool3d"
    };

    /// Checks what no input can make up for.
    ///
    /// # Errors
    /// An output of more than one value for each channel.
    pub fn check(&self) -> Result<(), SpecError> {
        for (axis, &actual) in self.output_size.iter().enumerate() {
            if actual != 1 {
                return Err(SpecError::Mismatch {
                    operator: Self::OPERATOR,
                    quantity: Quantity::entry("output_size", axis),
                    actual,
                    expected: 1,
                });
            }
        }
        Ok(())
    }

    /// Checks the attributes against the input's shape `[n, c, ..]`. An empty batch is accepted and gives an
    /// empty output.
    ///
    /// # Errors
    /// Rank other than `D + 2`; channels or extents of 0; those of [`check`](Self::check).
    pub fn problem(&self, input: &[usize]) -> Result<AdaptiveAvgPoolProblem<D>, SpecError> {
        const { assert!(D == 2 || D == 3, "images or volumes") };
        let (n, c, extents) = batch_of::<D>(Self::OPERATOR, input)?;
        self.check()?;
        elements(Self::OPERATOR, "input", input)?;
        let extents = as_volume(extents);
        let pool = PoolProblem {
            operator: Self::OPERATOR,
            dimensions: D,
            n,
            c,
            input: extents,
            output: [1; 3],
            kernel_size: extents,
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
            pooled: Pooled::Average {
                count_include_pad: false,
            },
        };
        Ok(AdaptiveAvgPoolProblem { pool })
    }
}
