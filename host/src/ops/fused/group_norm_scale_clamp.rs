//! `group_norm`, `scale` and `clamp` of a tensor that was pooled before its norm.

use kernels_gpu::fused::group_norm_scale_clamp::GROUP_NORM_SCALE_CLAMP;

use crate::error::Result;
use crate::ops::group_norm::NormInput;
use crate::ops::launching::{Affine, compute};
use crate::program::{ProgramBuilder, Value};
use crate::spec::ClampProblem;

/// Appends what normalises, scales and clamps `(n, c, h, w)`, with the statistics of the tensor that it was pooled from.
pub(crate) fn normalise_and_clamp(
    program: &mut ProgramBuilder,
    input: &NormInput,
    scale: Value,
    clamp: &ClampProblem,
) -> Result<Value> {
    let &NormInput {
        x, partials, norm, ..
    } = input;
    let Affine { weight, bias } = input.affine;
    let spatial: usize = program.shape(x)[2..].iter().product();
    let geometry = norm.pooled(spatial as u64);
    let (family, shape) = (&GROUP_NORM_SCALE_CLAMP, geometry.shape());
    let (y, bounds) = (program.tensor_like(x)?, clamp.kernel_bounds());
    let arguments = (x, partials, weight, bias, scale, y, geometry, bounds);
    // SAFETY: `x` and `y` have `spatial` elements for each channel of the norm's rows; the partial results are those of
    // these rows; weight and bias have a value per channel where the geometry says that they exist, and so has `scale`.
    unsafe { compute(program, family, shape, y, arguments) }
}
