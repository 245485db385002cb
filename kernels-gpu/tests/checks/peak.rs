//! Kernels that keep a unit busy: what they store has a closed form.

use op_spec::launch::LaunchShape;
use op_spec::launch::peak::{MMA_LANE_ELEMENTS, MMA_TILE, mma_column_value, mma_row_value};

use super::super::kernels::peak::{
    PEAK_WGMMA_SHARED, SHARED_CHAIN_CONSUMERS, SHARED_CHAIN_STEPS, SHARED_CHAIN_THREADS,
};
use super::{Failure, Outcome, Run};

/// Values that one instruction sums over.
const K: usize = 16;

/// Chains of warpgroup products with both operands in shared memory.
pub(crate) fn shared_chains(run: &Run) -> Outcome {
    const BLOCKS: usize = 2;
    const STEPS: u32 = 2;
    for (label, columns) in [("n128_f16", 128), ("n256_f16", 256)] {
        let threads = BLOCKS * SHARED_CHAIN_CONSUMERS as usize;
        let y = run.empty::<f32>(threads * MMA_LANE_ELEMENTS)?;
        let shape = LaunchShape::linear(BLOCKS as u64, SHARED_CHAIN_THREADS);
        run.launch(&PEAK_WGMMA_SHARED, &[label.into()], shape, (y.ptr(), STEPS))?;
        let links = columns / MMA_TILE[1] * STEPS as usize * SHARED_CHAIN_STEPS * K;
        for (at, value) in y.values()?.into_iter().enumerate() {
            let (thread, e) = (
                (at / MMA_LANE_ELEMENTS) as u32,
                (at % MMA_LANE_ELEMENTS) as u32,
            );
            let (warp, lane) = (thread / 32, thread % 32);
            let row = mma_row_value(16 * warp + lane / 4 + 8 * (e / 2));
            let wanted = links as f32 * row * mma_column_value(2 * (lane % 4) + e % 2);
            if value != wanted {
                return Err(Failure(format!(
                    "{label}: element {at} is {value}, must be {wanted}"
                )));
            }
        }
    }
    Ok(())
}
