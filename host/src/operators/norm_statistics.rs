//! The statistics of norms, and the inputs of normalising kernels.

use kernels_gpu::group_norm::GROUP_NORM_STATS;
use launch_config::norm::NormGeometry;

use super::launching::{Affine, kernel};
use crate::device::DType;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};

/// The inputs of a normalising kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormInput {
    /// The tensor to normalise.
    pub(crate) x: Value,
    /// The statistics of every row, as partial results that the kernels combine.
    pub(crate) partials: Value,
    pub(crate) affine: Affine,
    /// The norm, which determines the layout of the partial results.
    pub(crate) norm: NormGeometry,
    /// Whether no other launch reads `x`, so that results may overwrite it.
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
        norm: norm.wide(affine.is_wide(program, x)),
        is_spent: false,
    })
}
