use ndarray::{ArrayD, ArrayViewD, IxDyn};
use op_spec::{ChannelMaxSpec, SpecError};
use rayon::prelude::*;

use super::max_keeping_nan;

/// Positions that one task takes through all channels.
const TASK_POSITIONS: usize = 1 << 12;

/// The maximum over the channels; NaN in any of them gives NaN.
///
/// # Errors
/// What [`ChannelMaxSpec::problem`] refuses.
pub(crate) fn channel_max(x: ArrayViewD<'_, f32>) -> Result<ArrayD<f32>, SpecError> {
    let shape = ChannelMaxSpec.problem(x.shape())?.shape;
    let mut output_shape = vec![shape.n];
    output_shape.extend_from_slice(&x.shape()[2..]);
    let mut y = ArrayD::zeros(IxDyn(&output_shape));
    if y.is_empty() {
        return Ok(y);
    }
    let x = x.as_standard_layout();
    let samples = x.as_slice().expect("standard layout is contiguous");
    y.as_slice_mut()
        .expect("a new array is contiguous")
        .par_chunks_mut(shape.spatial)
        .zip(samples.par_chunks(shape.c * shape.spatial))
        .for_each(|(y, x)| max_over_channels(x, y));
    Ok(y)
}

/// The maximum over the planes of `x`, which are as long as `y`.
pub(super) fn max_over_channels(x: &[f32], y: &mut [f32]) {
    let spatial = y.len();
    y.par_chunks_mut(TASK_POSITIONS)
        .enumerate()
        .for_each(|(task, y)| {
            let part = task * TASK_POSITIONS..task * TASK_POSITIONS + y.len();
            let mut planes = x.chunks_exact(spatial).map(|plane| &plane[part.clone()]);
            y.copy_from_slice(planes.next().expect("there is at least one channel"));
            for plane in planes {
                for (best, &v) in y.iter_mut().zip(plane) {
                    *best = max_keeping_nan(*best, v);
                }
            }
        });
}
