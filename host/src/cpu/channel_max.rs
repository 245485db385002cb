use rayon::prelude::*;

use super::max_keeping_nan;

/// Positions that one task takes through all channels.
const TASK_POSITIONS: usize = 1 << 12;

/// The maximum over the planes of `x`, which are as long as `y`; NaN in any of them gives NaN.
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
