//! The maximum of windows of images and volumes.

#[cfg(feature = "graph")]
mod file;
use crate::SpecError;
use crate::pool::{Attributes, MaxPool2dProblem, MaxPool3dProblem, Pooled};
use crate::setters::{PerAxis, setters};

/// Attributes of max pooling of images (`D` = 2) or volumes (3); see
/// [`torch.nn.functional.max_pool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html)
/// and [`max_pool3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool3d.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "file::MaximumFile", into = "file::MaximumFile")
)]
#[non_exhaustive]
pub struct MaxPoolSpec<const D: usize> {
    /// Window extents.
    pub kernel_size: [usize; D],
    /// Step between windows; the window extents if absent.
    pub stride: Option<[usize; D]>,
    /// Padding on both sides, which is never the maximum.
    pub padding: [usize; D],
    /// Step between the elements of a window.
    pub dilation: [usize; D],
    /// Whether a last window may reach beyond the padding, provided that it starts inside of the input or the
    /// padding in front of it.
    pub ceil_mode: bool,
}

/// Attributes of max pooling of images.
pub type MaxPool2dSpec = MaxPoolSpec<2>;
/// Attributes of max pooling of volumes.
pub type MaxPool3dSpec = MaxPoolSpec<3>;

setters! {
    [const D: usize] MaxPoolSpec<D> {
        /// Sets the step between windows.
        stride(stride: impl Into<PerAxis<D>>) |spec| spec.stride = Some(stride.into().0);
        /// Sets the padding on both sides.
        padding(padding: impl Into<PerAxis<D>>) |spec| spec.padding = padding.into().0;
        /// Sets the step between the elements of a window.
        dilation(dilation: impl Into<PerAxis<D>>) |spec| spec.dilation = dilation.into().0;
        /// Sets whether a last window may reach beyond the padding.
        ceil_mode(ceil_mode: bool) |spec| spec.ceil_mode = ceil_mode;
    }
}

impl<const D: usize> MaxPoolSpec<D> {
    /// Returns a specification with PyTorch's defaults: windows side by side, no padding, dilation 1.
    #[must_use]
    pub fn new(kernel_size: impl Into<PerAxis<D>>) -> Self {
        const { assert!(D == 2 || D == 3, "images or volumes") };
        Self {
            kernel_size: kernel_size.into().0,
            stride: None,
            padding: [0; D],
            dilation: [1; D],
            ceil_mode: false,
        }
    }

    fn attributes(&self) -> Attributes<D> {
        Attributes {
            operator: if D == 2 { "max_pool2d" } else { "max_pool3d" },
            kernel_size: self.kernel_size,
            stride: self.stride.unwrap_or(self.kernel_size),
            padding: self.padding,
            dilation: self.dilation,
            ceil_mode: self.ceil_mode,
            pooled: Pooled::Maximum,
        }
    }

    /// Checks the attributes before any input shape is known.
    ///
    /// # Errors
    /// Kernel, stride or dilation of 0; padding over half the kernel.
    pub fn check(&self) -> Result<(), SpecError> {
        self.attributes().check()
    }
}

impl MaxPoolSpec<2> {
    /// Checks the attributes against the input's shape `[n, c, h, w]`.
    ///
    /// An empty batch is accepted and gives an empty output.
    ///
    /// # Errors
    /// Rank other than 4; channels or image extents of 0; kernel, stride or dilation of 0; padding
    /// over half the kernel; a dilated window larger than the padded input (which `ceil_mode`
    /// relaxes by `stride - 1`).
    pub fn problem(&self, input: &[usize]) -> Result<MaxPool2dProblem, SpecError> {
        let pool = self.attributes().problem(input)?;
        Ok(MaxPool2dProblem { pool })
    }
}

impl MaxPoolSpec<3> {
    /// Checks the attributes against the input's shape `[n, c, d, h, w]`. An empty batch is accepted and
    /// gives an empty output.
    ///
    /// # Errors
    /// Rank other than 5; channels or extents of 0; the errors of [`check`](Self::check); a dilated window
    /// larger than the padded input (which `ceil_mode` relaxes by `stride - 1`).
    pub fn problem(&self, input: &[usize]) -> Result<MaxPool3dProblem, SpecError> {
        let pool = self.attributes().problem(input)?;
        Ok(MaxPool3dProblem { pool })
    }
}
