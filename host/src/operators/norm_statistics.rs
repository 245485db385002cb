//! The statistics of norms, and the inputs of normalising kernels.

use kernels_gpu::group_norm::GROUP_NORM_STATS;
use launch_config::norm::NormGeometry;

use super::launching::Affine;
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
    /// Whether this is the last use of `x`, so that results may overwrite it.
    pub(crate) is_spent: bool,
}

/// Appends the launch that computes the statistics of every row of `x`.
pub(crate) fn statistics(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    norm: NormGeometry,
) -> Result<NormInput> {
    let (label, shape) = (program.label(x), norm.stats_shape());
    let partials = program.tensor(&[norm.partial_elements() as usize], DType::F32)?;
    // SAFETY: `x` has `norm.elements()` elements and `partials` `norm.partial_elements()`.
    unsafe { program.launch(&GROUP_NORM_STATS, &label, shape, (x, partials, norm))? }
    Ok(NormInput {
        x,
        partials,
        affine,
        norm: norm.with_affine_type(affine.element_type(program, x)),
        is_spent: false,
    })
}
