//! Statistics and norms of tensors of more elements than 32 bits count: as in `far`. All samples are alike,
//! and the last of many comes to the bits that it comes to alone.

use cuda_std::Storage;
use launch_config::norm::{NormGeometry, PARTIAL_ELEMENTS};

use super::super::kernels::fused::group_norm_scale_resident::GROUP_NORM_SCALE_RESIDENT;
use super::super::kernels::group_norm::GROUP_NORM_STATS;
use super::far::number;
use super::norm::EPS;
use super::{Outcome, Run, Tensor, label};

/// A batch of samples of one row of `elements`, each of which begins where a vector does.
fn batch<T: Storage>(
    run: &Run,
    n: u64,
    elements: u64,
) -> Result<(NormGeometry, Tensor<T>), super::Failure> {
    let g = NormGeometry::new(n, 1, 1, elements, EPS);
    let x = run.computed::<T>(n * elements, move |index| number(index % elements))?;
    Ok((g, x))
}

/// The last blocks of rows of a warp, of a block and of several splits, and their partial moments.
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

/// The last of rows that stay in shared memory.
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
