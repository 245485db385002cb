//! Statistics and norms of tensors of more than 2^32 elements, as in `far`. All samples are equal, and the
//! last of many has the bits that it has alone.

use std::ptr::null;

use cuda_std::Storage;
use launch_config::batch_norm::FoldGeometry;
use launch_config::norm::{COUNTED_ELEMENTS, NormGeometry, PARTIAL_ELEMENTS};
use launch_config::norm_nhwc::NormNhwcGeometry;
use launch_config::pointwise::OperandList;
use launch_config::{AffineType, Presence};

use super::super::kernels::fused::group_norm_scale_resident::GROUP_NORM_SCALE_RESIDENT;
use super::super::kernels::group_norm::GROUP_NORM_STATS;
use super::super::kernels::norm_nhwc::{NORM_NHWC, NORM_NHWC_MOMENTS};
use super::far::number;
use super::norm::EPS;
use super::{Outcome, Run, Tensor, label};

/// A batch of `n` samples of one row of `elements` elements, each of which is vector-aligned.
fn batch<T: Storage>(
    run: &Run,
    n: u64,
    elements: u64,
) -> Result<(NormGeometry, Tensor<T>), super::Failure> {
    let g = NormGeometry::new(n, 1, 1, elements, EPS);
    let x = run.computed::<T>(n * elements, move |index| number(index % elements))?;
    Ok((g, x))
}

/// Checks the last blocks of rows of a warp, of a block and of several splits, and their partial moments.
pub(crate) fn statistics<T: Storage>(run: &Run) -> Outcome {
    for (samples, elements) in [(10_000_001, 1004), (2_000_001, 6004), (1_000_001, 20_004)] {
        let of = |n: u64| {
            let (g, x) = batch::<T>(run, n, elements)?;
            let partials = run.sparse::<f32>(g.partial_elements())?;
            let shape = g.stats_shape();
            let grid = u64::from(shape.expect("few blocks").grid[0]);
            let splits = u64::from(g.splits);
            let last: Vec<u64> = (grid - splits..grid).collect();
            let arguments = (x.source(), partials.ptr(), g);
            run.launch_some(&GROUP_NORM_STATS, &[label::<T>()], shape, &last, arguments)?;
            Ok::<_, super::Failure>((partials, splits * PARTIAL_ELEMENTS as u64))
        };
        let (alone, len) = of(1)?;
        let alone = alone.values()?;
        let (all, _) = of(samples)?;
        let first = (samples - 1) * len;
        all.are(
            &format!("rows of {elements}"),
            first..first + len,
            |index| alone[(index - first) as usize],
        )?;
    }
    Ok(())
}

/// Checks the last row of a kernel that keeps rows in shared memory.
pub(crate) fn resident<T: Storage>(run: &Run) -> Outcome {
    const SAMPLES: u64 = 1_000_001;
    const ELEMENTS: u64 = 6004;
    let of = |n: u64| {
        let (g, x) = batch::<T>(run, n, ELEMENTS)?;
        let scale = run.tensor::<T>(&[2.0])?;
        let y = run.sparse::<T>(n * ELEMENTS)?;
        let none = std::ptr::null();
        let arguments = (x.source(), none, none, scale.source(), y.ptr(), g);
        let shape = g.resident_launch(size_of::<T>() as u32);
        let family = &GROUP_NORM_SCALE_RESIDENT;
        run.launch_some(family, &[label::<T>()], shape, &[n - 1], arguments)?;
        Ok::<_, super::Failure>(y)
    };
    let alone = of(1)?.values()?;
    let first = (SAMPLES - 1) * ELEMENTS;
    of(SAMPLES)?.are("resident rows", first..first + ELEMENTS, |index| {
        alone[(index - first) as usize]
    })
}

/// Checks the statistics and the norm of the last part of the last sample of a channels-last tensor.
pub(crate) fn channels_last<T: Storage>(run: &Run) -> Outcome {
    const CHANNELS: u64 = 8;
    const PIXELS: u64 = 2_900;
    const SAMPLES: u64 = 200_003;
    const SAMPLE: u64 = CHANNELS * PIXELS;
    let labels = [label::<T>()];
    let launched = |n: u64| {
        let norm = NormGeometry::new(n, CHANNELS as u32, 2, PIXELS, 0.0);
        let statistics =
            NormNhwcGeometry::statistics(&norm, size_of::<T>()).expect("whole vectors");
        let x = run.computed::<T>(n * SAMPLE, |index| number(index % SAMPLE))?;
        // Of one sample, all blocks.
        let last = |g: &NormNhwcGeometry| -> Vec<u64> {
            let grid = u64::from(g.shape().expect("few blocks").grid[0]);
            (if n == 1 { 0 } else { grid - 1 }..grid).collect()
        };
        let moments = run.sparse::<f32>(statistics.moment_elements())?;
        let arguments = (x.source(), moments.ptr(), statistics);
        let (shape, blocks) = (statistics.shape(), last(&statistics));
        run.launch_some(&NORM_NHWC_MOMENTS, &labels, shape, &blocks, arguments)?;

        // Rows of mean 1 and variance 4.
        let g = statistics.apply();
        let (count, deviations) = (g.norm.row_elements as f32, 4.0 * g.norm.row_elements as f32);
        let of = move |index| [count, 1.0, deviations, 0.0][index as usize % COUNTED_ELEMENTS];
        let partials = run.computed::<f32>(g.norm.partial_elements(), of)?;
        let y = run.sparse::<T>(n * SAMPLE)?;
        let none = std::ptr::null();
        let arguments = (
            x.source(),
            partials.source(),
            null(),
            null(),
            null(),
            null(),
            none,
            y.ptr(),
            g,
            FoldGeometry::NONE,
            AffineType::F32,
            Presence::ABSENT,
            OperandList::EMPTY,
        );
        run.launch_some(&NORM_NHWC, &labels, g.shape(), &last(&g), arguments)?;
        let part = u64::from(g.parts - 1) * u64::from(g.part_pixels);
        let first = (n - 1) * SAMPLE + part * CHANNELS;
        y.are("norm", first..n * SAMPLE, |index| {
            (number(index % SAMPLE) - 1.0) / 2.0
        })?;
        Ok::<_, super::Failure>(moments)
    };
    let alone = launched(1)?.values()?;
    let first = (SAMPLES - 1) * alone.len() as u64;
    // Of each channel, the last part's.
    let parts = alone.len() as u64 / CHANNELS / COUNTED_ELEMENTS as u64;
    assert!(parts > 1);
    let all = launched(SAMPLES)?;
    (1..=CHANNELS).try_for_each(|channel| {
        let end = first + channel * parts * COUNTED_ELEMENTS as u64;
        let elements = end - COUNTED_ELEMENTS as u64..end;
        all.are("statistics", elements, |index| {
            alone[(index - first) as usize]
        })
    })
}
