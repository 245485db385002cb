//! Average pooling of images and volumes.

use super::{Attributes, AvgPoolProblem, Pooled};
use crate::SpecError;
use crate::setters::{PerAxis, setters};

/// Attributes of average pooling of images (`D` = 2) or volumes (3); see
/// [`torch.nn.functional.avg_pool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool2d.html)
/// and [`avg_pool3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool3d.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "super::file::AverageFile",
        into = "super::file::AverageFile"
    )
)]
#[non_exhaustive]
pub struct AvgPoolSpec<const D: usize> {
    /// Window extents.
    pub kernel_size: [usize; D],
    /// Step between windows; the window extents if absent.
    pub stride: Option<[usize; D]>,
    /// Zero padding on both sides.
    pub padding: [usize; D],
    /// Whether a last window may reach beyond the padding, provided that it starts inside of the input or the
    /// padding in front of it.
    pub ceil_mode: bool,
    /// Whether zeros of the padding count among a window's elements. Elements beyond the padding never do.
    pub count_include_pad: bool,
    /// The divisor of sums in place of the number of elements; any integer but 0.
    pub divisor_override: Option<i64>,
}

/// Attributes of average pooling of images.
pub type AvgPool2dSpec = AvgPoolSpec<2>;
/// Attributes of average pooling of volumes.
pub type AvgPool3dSpec = AvgPoolSpec<3>;

setters! {
    [const D: usize] AvgPoolSpec<D> {
        /// Sets the step between windows.
        stride(stride: impl Into<PerAxis<D>>) |spec| spec.stride = Some(stride.into().0);
        /// Sets the padding on both sides.
        padding(padding: impl Into<PerAxis<D>>) |spec| spec.padding = padding.into().0;
        /// Sets whether zeros of the padding count among a window's elements.
        count_include_pad(count_include_pad: bool) |spec| spec.count_include_pad = count_include_pad;
        /// Sets a divisor that replaces the number of elements.
        divisor_override(divisor: impl Into<Option<i64>>) |spec| spec.divisor_override = divisor.into();
        /// Sets whether a last window may reach beyond the padding.
        ceil_mode(ceil_mode: bool) |spec| spec.ceil_mode = ceil_mode;
    }
}

impl<const D: usize> AvgPoolSpec<D> {
    const OPERATOR: &str = if D == 2 { "avg_pool2d" } else { "avg_pool3d" };

    /// Returns a specification with PyTorch's defaults: windows side by side, no padding.
    #[must_use]
    pub fn new(kernel_size: impl Into<PerAxis<D>>) -> Self {
        const { assert!(D == 2 || D == 3, "images or volumes") };
        Self {
            kernel_size: kernel_size.into().0,
            stride: None,
            padding: [0; D],
            ceil_mode: false,
            count_include_pad: true,
            divisor_override: None,
        }
    }

    fn attributes(&self) -> Attributes<D> {
        const { assert!(D == 2 || D == 3, "images or volumes") };
        let count_include_pad = self.count_include_pad;
        let counted = Pooled::Average { count_include_pad };
        Attributes {
            operator: Self::OPERATOR,
            kernel_size: self.kernel_size,
            stride: self.stride.unwrap_or(self.kernel_size),
            padding: self.padding,
            dilation: [1; D],
            ceil_mode: self.ceil_mode,
            pooled: self.divisor_override.map_or(counted, Pooled::DividedBy),
        }
    }

    /// Checks the attributes before any input shape is known.
    ///
    /// # Errors
    /// Kernel or stride of 0; padding over half the kernel; a divisor of 0.
    pub fn check(&self) -> Result<(), SpecError> {
        self.attributes().check()
    }

    /// Checks the attributes against the input's shape `[n, c, ..]`. An empty batch is accepted and gives an
    /// empty output.
    ///
    /// # Errors
    /// Rank other than `D + 2`; channels or extents of 0; the errors of [`check`](Self::check); a window
    /// larger than the padded input (which `ceil_mode` relaxes by `stride - 1`).
    pub fn problem(&self, input: &[usize]) -> Result<AvgPoolProblem<D>, SpecError> {
        let pool = self.attributes().problem(input)?;
        Ok(AvgPoolProblem { pool })
    }
}
