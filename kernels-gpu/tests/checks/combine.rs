//! Moments of many parts of a row, combined.

use launch_config::implicit_gemm::{Combining, combining};
use launch_config::norm::COUNTED_ELEMENTS;
use oracle::data::signed;

use super::super::kernels::fused::implicit_gemm::IMPLICIT_GEMM_COMBINE;
use super::{Outcome, Run, Tensor, compare, direct};

/// Combines `parts` moments of each row to one.
pub(crate) fn whole(
    run: &Run,
    moments: &Tensor<f32>,
    parts: u32,
    combined: &Tensor<f32>,
) -> Outcome {
    let combining = Combining::whole(parts.into());
    launch(run, moments, combining, combined)
}

fn launch(
    run: &Run,
    moments: &Tensor<f32>,
    combining: Combining,
    combined: &Tensor<f32>,
) -> Outcome {
    let chunks = combining.chunks as usize;
    let rows = (combined.len() / COUNTED_ELEMENTS / chunks) as u64;
    let arguments = (moments.source(), combined.ptr(), rows, combining);
    run.launch(
        &IMPLICIT_GEMM_COMBINE,
        &[],
        combining.shape(rows),
        arguments,
    )
}

/// Rows with enough parts that they are combined in chunks, of which the last is short.
pub(crate) fn in_chunks(run: &Run) -> Outcome {
    const ROWS: usize = 3;
    for parts in [2049, 3072, 5003_usize] {
        // Parts of 0 elements have moments that must not count.
        let counts = (0..ROWS * parts).map(|i| (i * i % 7) as f32);
        let [means, m2] = [1, 2].map(|seed| signed(seed, &[ROWS * parts]));
        let moments: Vec<[f32; COUNTED_ELEMENTS]> = counts
            .zip(means.iter().zip(&m2))
            .map(|(count, (mean, m2))| [count, 100.0 + mean, m2.abs(), 0.0])
            .collect();
        let wanted = moments.chunks(parts).flat_map(|row| {
            let row = || {
                row.iter()
                    .map(|moments| moments.map(f64::from))
                    .map(|[count, mean, m2, _]| (count, mean, m2))
                    .filter(|&(count, ..)| count > 0.0)
            };
            let count: f64 = row().map(|(count, ..)| count).sum();
            let mean = row().map(|(count, mean, _)| count * mean).sum::<f64>() / count;
            let of_part = |(count, own, m2): (f64, f64, f64)| m2 + count * (own - mean).powi(2);
            let m2: f64 = row().map(of_part).sum();
            // The number of combinations in a chain: a thread's moments, lanes, warps and chunks. Each has an
            // error of some units of its result. The mean is off by a unit of its magnitude, and deviations
            // are not smaller than that.
            let steps = (parts as f64 / 256.0).ceil() + 5.0 + 3.0 + 3.0;
            let unit = f64::exp2(-23.0);
            let off = steps * unit;
            [
                (count, 0.0),
                (mean, 2.0 * off * mean.abs()),
                (m2, 8.0 * off * (m2 + count * unit * mean.abs())),
                (0.0, 0.0),
            ]
        });
        let wanted = direct::<f32>(wanted);
        let flat: Vec<f32> = moments.iter().flatten().copied().collect();
        let mut left = run.tensor::<f32>(&flat)?;
        let mut launches = 0;
        for combining in combining(parts as u64, 1).into_iter().flatten() {
            let chunks = combining.chunks as usize;
            let combined = run.empty::<f32>(ROWS * chunks * COUNTED_ELEMENTS)?;
            launch(run, &left, combining, &combined)?;
            left = combined;
            launches += 1;
        }
        assert_eq!(launches, 2, "{parts} parts");
        compare(&format!("{parts} parts"), &left, &wanted)?;
    }
    Ok(())
}
