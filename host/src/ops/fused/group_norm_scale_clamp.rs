//! `group_norm`, `scale` and `clamp` of a tensor that was pooled before its norm.

use kernels_gpu::fused::group_norm_scale_clamp::GROUP_NORM_SCALE_CLAMP;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::Arena;
use crate::ops::launching::{Affine, Argument, bytes, grid, launch};
use crate::spec::launch::elementwise::Bounds;
use crate::spec::launch::norm::NormGeometry;

use super::group_norm_scale_max_pool2d_clamp::Parameters;

const OPERATOR: &str = "group_norm_scale_clamp";

/// Normalises, scales and clamps `x`, `(n, c, h, w)`, with the statistics of the tensor that it was pooled from, which
/// `partials` has as `norm` says.
pub(crate) fn normalise_and_clamp(
    arena: &mut Arena,
    x: &Tensor,
    partials: &Tensor,
    parameters: &Parameters<'_>,
    norm: NormGeometry,
    bounds: Bounds,
) -> Result<Tensor> {
    let stream = x.stream();
    let spatial: usize = x.shape()[2..].iter().product();
    let geometry = norm.pooled(spatial as u64);
    let shape = grid(OPERATOR, geometry.shape())?;
    let affine = Affine::open(OPERATOR, x, parameters.weight, parameters.bias)?;
    let factors = Argument::open(OPERATOR, "scale", parameters.scale, x)?;
    let y = arena.tensor(stream, x.shape(), x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    let moments = partials.read_on(OPERATOR, "statistics", stream)?;
    // SAFETY: `x` and `y` have `spatial` elements for each channel of the norm's rows, all start on 16 bytes; the
    // partial results are those of these rows; weight and bias have a value per channel where the geometry says that
    // they exist, and so has `scale`; `y` is fresh.
    unsafe {
        launch(
            stream,
            &GROUP_NORM_SCALE_CLAMP,
            &[x.dtype().label()],
            shape,
            (
                input.pointer(),
                moments.pointer(),
                affine.weight(),
                affine.bias(),
                factors.pointer(),
                y.output(),
                geometry,
                bounds,
            ),
        )?;
    }
    stream.moved(bytes(&[x, partials, parameters.scale, &y]) + affine.bytes());
    Ok(y)
}
