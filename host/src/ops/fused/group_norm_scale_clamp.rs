//! `group_norm`, `scale` and `clamp` of a tensor that was pooled before its norm.

use kernels_gpu::fused::group_norm_scale_clamp::GROUP_NORM_SCALE_CLAMP;

use crate::error::Result;
use crate::ops::group_norm::Statistics;
use crate::ops::launching::{Affine, grid};
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::launch::elementwise::Bounds;

const OPERATOR: &str = "group_norm_scale_clamp";

/// Appends what normalises, scales and clamps `x`, `(n, c, h, w)`, with the statistics of the tensor that it was pooled
/// from.
pub(crate) fn normalise_and_clamp(
    program: &mut ProgramBuilder,
    x: Value,
    statistics: &Statistics,
    affine: Affine,
    scale: Value,
    bounds: Bounds,
) -> Result<Value> {
    let &Statistics { partials, norm } = statistics;
    let (output, dtype) = (program.shape(x).to_vec(), program.dtype(x));
    let spatial: usize = output[2..].iter().product();
    let geometry = norm.pooled(spatial as u64);
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = program.tensor(&output, dtype)?;
    // SAFETY: `x` and `y` have `spatial` elements for each channel of the norm's rows; the partial results are those of
    // these rows; weight and bias have a value per channel where the geometry says that they exist, and so has `scale`.
    unsafe {
        let kernel = GROUP_NORM_SCALE_CLAMP.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (
                Read(x),
                Read(partials),
                affine.weight(),
                affine.bias(),
                Read(scale),
                Write(y),
                geometry,
                bounds,
            ),
        );
    }
    Ok(y)
}
