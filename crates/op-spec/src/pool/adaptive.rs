//! Averages of equal windows side by side, one for each output position.

use super::{AdaptiveAvgPoolProblem, PoolProblem, Pooled, as_volume, batch_of};
use crate::SpecError;
use crate::error::{Quantity, at_least_one};
use crate::setters::PerAxis;
use crate::shape::elements;

/// Attributes of adaptive average pooling of images (`D` = 2) or volumes (3); see
/// [`torch.nn.functional.adaptive_avg_pool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool2d.html)
/// and
/// [`adaptive_avg_pool3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool3d.html).
///
/// The output's extents must divide those of the input; all windows are then equal and side by side. Other
/// extents are refused; PyTorch's windows overlap for them.
///
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::AdaptiveAvgPool2dSpec;
///
/// let bins = AdaptiveAvgPool2dSpec::new([2, 3]);
/// assert_eq!(*bins.problem(&[2, 8, 6, 6])?.output_shape(), [2, 8, 2, 3]);
/// assert!(bins.problem(&[2, 8, 6, 7]).is_err());
/// # Ok::<(), op_spec::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "super::file::AdaptiveFile",
        into = "super::file::AdaptiveFile"
    )
)]
#[non_exhaustive]
pub struct AdaptiveAvgPoolSpec<const D: usize> {
    /// Extents of the output.
    pub output_size: [usize; D],
}

/// Attributes of adaptive average pooling of images.
pub type AdaptiveAvgPool2dSpec = AdaptiveAvgPoolSpec<2>;
/// Attributes of adaptive average pooling of volumes.
pub type AdaptiveAvgPool3dSpec = AdaptiveAvgPoolSpec<3>;

impl<const D: usize> Default for AdaptiveAvgPoolSpec<D> {
    /// An output of one value for each channel.
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

    /// Returns the specification with this output size.
    #[must_use]
    pub fn new(output_size: impl Into<PerAxis<D>>) -> Self {
        Self {
            output_size: output_size.into().0,
        }
    }

    /// Checks the attributes before any input shape is known.
    ///
    /// # Errors
    /// An output extent of 0.
    pub fn check(&self) -> Result<(), SpecError> {
        let mut sizes = self.output_size.iter().enumerate();
        sizes.try_for_each(|(axis, &size)| {
            at_least_one(Self::OPERATOR, Quantity::entry("output_size", axis), size)
        })
    }

    /// Checks the attributes against the input's shape `[n, c, ..]`. An empty batch is accepted and gives an
    /// empty output.
    ///
    /// # Errors
    /// Rank other than `D + 2`; channels or extents of 0; input extents that are no multiples of the
    /// output's; the errors of [`check`](Self::check).
    pub fn problem(&self, input: &[usize]) -> Result<AdaptiveAvgPoolProblem<D>, SpecError> {
        const { assert!(D == 2 || D == 3, "images or volumes") };
        let (n, c, extents) = batch_of::<D>(Self::OPERATOR, input)?;
        self.check()?;
        elements(Self::OPERATOR, "input", input)?;
        let names = ["input's depth", "input's height", "input's width"];
        for axis in 0..D {
            if !extents[axis].is_multiple_of(self.output_size[axis]) {
                return Err(SpecError::NotMultiple {
                    operator: Self::OPERATOR,
                    quantity: names[3 - D + axis],
                    actual: extents[axis],
                    divisor_name: "output_size",
                    divisor: self.output_size[axis],
                });
            }
        }
        let (extents, output) = (as_volume(extents), as_volume(self.output_size));
        let windows = core::array::from_fn(|axis| extents[axis] / output[axis]);
        // A single window has no step to a next one.
        let stride = core::array::from_fn(|axis| match output[axis] {
            1 => 1,
            _ => windows[axis],
        });
        let pool = PoolProblem {
            operator: Self::OPERATOR,
            dimensions: D,
            n,
            c,
            input: extents,
            output,
            kernel_size: windows,
            stride,
            padding: [0; 3],
            dilation: [1; 3],
            pooled: Pooled::Average {
                count_include_pad: false,
            },
        };
        Ok(AdaptiveAvgPoolProblem { pool })
    }
}
