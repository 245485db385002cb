//! The maximum of windows of volumes.

use super::{Attributes, PoolProblem, Pooled};
use crate::SpecError;
use crate::shape::Shape;

/// Attributes of max pooling of volumes; see
/// [`torch.nn.functional.max_pool3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool3d.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "super::layer::MaximumFile",
        into = "super::layer::MaximumFile"
    )
)]
pub struct MaxPool3dSpec {
    /// Window extents.
    pub kernel_size: [usize; 3],
    /// Step between windows; the window extents if absent.
    pub stride: Option<[usize; 3]>,
    /// Padding on both sides, which never is the maximum.
    pub padding: [usize; 3],
    /// Step between the elements of a window.
    pub dilation: [usize; 3],
    /// Whether a last window that reaches beyond the padding counts, provided that it starts inside the input
    /// or the padding in front of it.
    pub ceil_mode: bool,
}

impl MaxPool3dSpec {
    /// PyTorch's defaults: windows side by side, no padding, no gaps.
    #[must_use]
    pub const fn new(kernel_size: [usize; 3]) -> Self {
        Self {
            kernel_size,
            stride: None,
            padding: [0; 3],
            dilation: [1; 3],
            ceil_mode: false,
        }
    }

    fn attributes(&self) -> Attributes<3> {
        Attributes {
            operator: "max_pool3d",
            kernel_size: self.kernel_size,
            stride: self.stride.unwrap_or(self.kernel_size),
            padding: self.padding,
            dilation: self.dilation,
            ceil_mode: self.ceil_mode,
            pooled: Pooled::Maximum,
        }
    }

    /// Checks what no input can make up for.
    ///
    /// # Errors
    /// Kernel, stride or dilation of 0; padding over half the kernel.
    pub fn check(&self) -> Result<(), SpecError> {
        self.attributes().check()
    }

    /// Checks the attributes against the input's shape `[n, c, d, h, w]`. An empty batch is accepted and
    /// gives an empty output.
    ///
    /// # Errors
    /// Rank other than 5; channels or extents of 0; those of [`check`](Self::check); a dilated window larger
    /// than the padded input (which `ceil_mode` relaxes by `stride - 1`).
    pub fn problem(&self, input: &[usize]) -> Result<MaxPool3dProblem, SpecError> {
        let pool = self.attributes().problem(input)?;
        Ok(MaxPool3dProblem { pool })
    }
}

/// A max pooling of volumes whose extents and attributes fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaxPool3dProblem {
    /// What it is as a pool.
    pub pool: PoolProblem,
}

impl MaxPool3dProblem {
    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> Shape {
        self.pool.output_shape()
    }
}
