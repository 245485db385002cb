//! `layer_norm` of rows in registers.

use op_spec::{LayerNormProblem, Quantity, SpecError};

use super::AffineType;
use super::geometry::kernel_extent;
use super::series::SeriesGeometry;

/// A layer norm of rows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNormGeometry {
    /// The rows.
    pub rows: SeriesGeometry,
    /// Number added to the variance.
    pub eps: f32,
    /// The element type of weight and bias.
    pub affine_type: AffineType,
}

impl LayerNormGeometry {
    /// Returns the layer norm of rows of a dense tensor.
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if the channels or the elements of a row exceed the range of kernels.
    pub fn of(problem: &LayerNormProblem, affine_type: AffineType) -> Result<Self, SpecError> {
        let channels = Quantity::entry("input", 1);
        let channels = kernel_extent("layer_norm", channels, problem.channels)?;
        let shape = &problem.shape;
        let elements = shape.c.saturating_mul(shape.spatial);
        let rows = SeriesGeometry::of("layer_norm", [shape.n, elements, 1])?;
        let rows_per_channel = problem.rows_per_sample / problem.channels.max(1);
        Ok(Self {
            rows: rows.within_channels(channels, rows_per_channel.max(1) as u64),
            eps: problem.eps as f32,
            affine_type,
        })
    }
}
