//! `softmax` and `log_softmax`.

use super::Presence;
use super::series::SeriesGeometry;

/// A softmax of each series.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftmaxGeometry {
    /// The values that share a sum.
    pub series: SeriesGeometry,
    /// Whether logarithms are taken of the results.
    pub is_log: Presence,
}
