use op_spec::ChannelReductionProblem;
use rayon::prelude::*;

/// Positions that one task takes through all channels.
const TASK_POSITIONS: usize = 1 << 12;

/// Reduces the planes of the sample `x`, which are as long as `y`.
pub(super) fn reduce_channels(x: &[f32], y: &mut [f32], problem: &ChannelReductionProblem) {
    let (spatial, operation) = (y.len(), problem.operation);
    y.par_chunks_mut(TASK_POSITIONS)
        .enumerate()
        .for_each(|(task, y)| {
            let part = task * TASK_POSITIONS..task * TASK_POSITIONS + y.len();
            y.fill(operation.identity());
            for plane in x.chunks_exact(spatial) {
                for (reduced, &v) in y.iter_mut().zip(&plane[part.clone()]) {
                    *reduced = operation.combine(*reduced, v);
                }
            }
            for reduced in y {
                *reduced = operation.finish(*reduced, problem.shape.c);
            }
        });
}
