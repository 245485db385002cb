//! Peak throughput kernels. Their results have a closed form.

use cuda_std::Label;
use launch_config::peak::{
    BLOCK_THREADS, CHAINS, COPY_BLOCK_ELEMENTS, FMA_UNROLL, MMA_LANE_ELEMENTS, MMA_UNROLL,
    WGMMA_CHAINS, WGMMA_UNROLL, chain_start, copy_shape, mma_column_value, mma_row_value,
};
use launch_config::{LaunchShape, WARP_THREADS};

use crate::checks::{Failure, Outcome, Run, Tensor, same_bits};
use crate::kernels::peak::{PEAK_COPY_F32, PEAK_FMA_F32, PEAK_MMA, PEAK_WGMMA_F16};

/// Steps of the kernels' loops, including none.
const STEPS: [u32; 3] = [0, 1, 3];

const BLOCKS: u64 = 2;

const THREADS: usize = BLOCKS as usize * BLOCK_THREADS as usize;

fn shape() -> Option<LaunchShape> {
    LaunchShape::linear(BLOCKS, BLOCK_THREADS)
}

/// Checks that every element is `wanted` of its index.
fn holds(what: &str, got: &Tensor<f32>, wanted: impl Fn(usize) -> f32) -> Outcome {
    let values = got.values()?;
    match (0..)
        .zip(&values)
        .find(|&(index, &value)| value != wanted(index))
    {
        None => Ok(()),
        Some((index, value)) => {
            let wanted = wanted(index);
            Err(Failure::new(format!(
                "{what}: element {index} is {value}, not {wanted}"
            )))
        }
    }
}

/// Checks a copy of whole blocks with different values.
pub(crate) fn copy(run: &Run) -> Outcome {
    let elements = BLOCKS as usize * COPY_BLOCK_ELEMENTS;
    let values: Vec<f32> = (0..elements).map(|i| (i % 65_521) as f32).collect();
    let x = run.tensor::<f32>(&values)?;
    let y = run.empty::<f32>(elements)?;
    let shape = copy_shape(elements as u64);
    run.launch(
        &PEAK_COPY_F32,
        &[],
        shape,
        (x.source(), y.ptr(), elements as u64),
    )?;
    same_bits("copy", &y, &x)
}

/// The sum of the ends of `CHAINS` chains of `links` links, each of which adds `gain`.
fn ends(links: u32, gain: f32) -> f32 {
    let starts: f32 = (0..CHAINS).map(chain_start).sum();
    starts + CHAINS as f32 * links as f32 * gain
}

/// Checks the sum of the ends of a thread's chains.
pub(crate) fn fma(run: &Run) -> Outcome {
    for steps in STEPS {
        let y = run.empty::<f32>(THREADS)?;
        run.launch(&PEAK_FMA_F32, &[], shape(), (y.ptr(), steps, 1.0, 1.0))?;
        holds(&format!("{steps} steps"), &y, |_| {
            ends(steps * FMA_UNROLL, 1.0)
        })?;
    }
    Ok(())
}

/// The summand that one matrix product adds to a lane's element: a row of `depth` equal values times a column
/// of `depth` equal values.
fn product(index: usize, depth: u32) -> f32 {
    let lane = (index / MMA_LANE_ELEMENTS) as u32 % WARP_THREADS;
    let element = (index % MMA_LANE_ELEMENTS) as u32;
    let (row, column) = (lane / 4 + 8 * (element / 2), 2 * (lane % 4) + element % 2);
    depth as f32 * mma_row_value(row) * mma_column_value(column)
}

/// Checks tensor cores with `mma.sync`, on tf32 and on f16.
pub(crate) fn mma(run: &Run) -> Outcome {
    for (label, depth) in [("tf32", 8), ("f16", 16)] {
        for steps in STEPS {
            let y = run.empty::<f32>(THREADS * MMA_LANE_ELEMENTS)?;
            run.launch(&PEAK_MMA, &[Label::Name(label)], shape(), (y.ptr(), steps))?;
            let wanted = |index| ends(steps * MMA_UNROLL, product(index, depth));
            holds(&format!("{label}, {steps} steps"), &y, wanted)?;
        }
    }
    Ok(())
}

/// Checks tensor cores with `wgmma`.
pub(crate) fn wgmma(run: &Run) -> Outcome {
    for steps in STEPS {
        let y = run.empty::<f32>(THREADS * MMA_LANE_ELEMENTS)?;
        run.launch(&PEAK_WGMMA_F16, &[], shape(), (y.ptr(), steps))?;
        let links = (WGMMA_CHAINS as u32 * steps * WGMMA_UNROLL) as f32;
        holds(&format!("{steps} steps"), &y, |index| {
            links * product(index, 16)
        })?;
    }
    Ok(())
}
