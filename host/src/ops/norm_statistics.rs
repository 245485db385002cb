//! The statistics of norms, and what kernels that normalise read.

use kernels_gpu::group_norm::GROUP_NORM_STATS;
use launch_config::norm::NormGeometry;

use super::launching::{Affine, kernel};
use crate::device::DType;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};

/// What kernels that normalise read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormInput {
    /// What is normalised.
    pub(crate) x: Value,
    /// The statistics of every row, as partial results that the kernels combine.
    pub(crate) partials: Value,
    pub(crate) affine: Affine,
    /// The norm, which says how the partial results lie.
    pub(crate) norm: NormGeometry,
    /// Whether nothing else reads `x`, so that results may take its place.
    pub(crate) is_spent: bool,
}

/// Appends the statistics of every row of `x`.
pub(crate) fn statistics(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    norm: NormGeometry,
) -> Result<NormInput> {
    let label = [program.dtype(x).label()];
    let (kernel, shape) = kernel(&GROUP_NORM_STATS, &label, norm.stats_shape())?;
    let partials = program.tensor(&[norm.partial_elements() as usize], DType::F32)?;
    // SAFETY: `x` has `norm.elements()` elements and `partials` `norm.partial_elements()`.
    unsafe { program.launch(kernel, shape, (x, partials, norm)) }
    Ok(NormInput {
        x,
        partials,
        affine,
        norm,
        is_spent: false,
    })
}
