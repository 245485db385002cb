//! `softmax` and `log_softmax`.

use op_spec::{Quantity, SoftmaxProblem, SpecError};

use super::Presence;
use super::geometry::kernel_extent;
use super::series::SeriesGeometry;

/// A softmax of each series.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftmaxGeometry {
    /// The values that share a sum, as a series.
    pub series: SeriesGeometry,
    /// Whether the results are logarithms.
    pub is_log: Presence,
}

impl SoftmaxGeometry {
    /// Returns the argument of a softmax of a dense tensor. If `is_nhwc`, the tensor is channels-last, and
    /// the softmax is over the channels.
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if the channels, the values that share a sum, or the elements behind them
    /// exceed the 32-bit range of kernels.
    pub fn of(problem: &SoftmaxProblem, is_nhwc: bool) -> Result<Self, SpecError> {
        let quantity = Quantity::entry("input", 1);
        let channels = kernel_extent(problem.operator(), quantity, problem.channels)?;
        let pass = &problem.pass;
        let extents = [pass.outer, pass.reduced, pass.inner];
        let mut series = SeriesGeometry::of(problem.operator(), extents)?;
        if is_nhwc && pass.inner > 1 {
            series = SeriesGeometry::in_slices(series.series, series.count, 1);
        }
        Ok(Self {
            series: if problem.is_of_channels() {
                series.along_channels(channels)
            } else {
                let planes = (problem.n * problem.channels).max(1) as u64;
                series.within_channels(channels, (series.series / planes).max(1))
            },
            is_log: Presence::of(problem.is_log),
        })
    }
}
