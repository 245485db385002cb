//! Norms with counted statistics of another kernel, in parts of any length.

use cuda_std::Storage;
use launch_config::norm::COUNTED_ELEMENTS;
use launch_config::pointwise::PointwiseList;
use op_spec::graph::Layer;
use oracle::Case;

use super::super::kernels::fused::group_norm_scale_pointwise::GROUP_NORM_SCALE_POINTWISE;
use super::norm::Norm;
use super::{Failure, Loaded, Outcome, Run, Tensor, combine, compare, expected, label, same_bits};

/// Checks rows of 21 and of 404 elements, with statistics in parts, normalised with weight and bias.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (channels, groups, spatial) in [(12, 4, 7), (8, 2, 101)] {
        let norm = norm(2, channels, groups, spatial);
        let case = norm.case::<T>([Layer::from(Layer::group_norm("norm", groups))]);
        // Parts of one, two and three values and of the rest.
        let moments = moments(run, &norm, &case, &[0, 1, 3, 6])?;
        let y = normalised::<T>(run, &norm, &case, &moments, 4)?;
        compare(&case.name, &y, &expected::<T>(&case))?;
    }
    Ok(())
}

/// Checks rows of as many parts as a warp combines at most, two for each of its lanes, and of fewer; blocks
/// have several rows. The bits equal those of statistics that an earlier launch combined.
pub(crate) fn bits<T: Storage>(run: &Run) -> Outcome {
    for (channels, groups, spatial) in [(8, 2, 101), (3, 3, 391)] {
        let norm = norm(3, channels, groups, spatial);
        let case = norm.case::<T>([Layer::from(Layer::group_norm("norm", groups))]);
        let row = channels / groups * spatial;
        for parts in [2, 17, 31, 32, 33, 50, 64] {
            // Of 0 to 303 values.
            let starts: Vec<usize> = (0..parts).map(|i| i * i * row / (parts * parts)).collect();
            let moments = moments(run, &norm, &case, &starts)?;
            let y = normalised::<T>(run, &norm, &case, &moments, parts as u32)?;
            let name = format!("{}, {parts} parts", case.name);
            compare(&name, &y, &expected::<T>(&case))?;

            let rows = moments.len() / parts / COUNTED_ELEMENTS;
            let combined = run.empty::<f32>(rows * COUNTED_ELEMENTS)?;
            combine::whole(run, &moments, parts as u32, &combined)?;
            let wanted = normalised::<T>(run, &norm, &case, &combined, 1)?;
            same_bits(&name, &y, &wanted)?;
        }
    }
    Ok(())
}

fn norm(n: usize, channels: usize, groups: usize, spatial: usize) -> Norm {
    Norm {
        n,
        channels,
        groups,
        spatial,
        shift: 10.0,
    }
}

/// The moments of each row of the case's input, in parts that start where `starts` says.
fn moments(run: &Run, norm: &Norm, case: &Case, starts: &[usize]) -> Result<Tensor<f32>, Failure> {
    let values: Vec<f64> = case.x.iter().map(|&x| f64::from(x)).collect();
    let row = norm.channels / norm.groups * norm.spatial;
    let ends = starts[1..].iter().copied().chain([row]);
    let parts: Vec<_> = starts.iter().copied().zip(ends).collect();
    let of_row = |row: &[f64]| -> Vec<f32> {
        let of_part = |&(start, end): &(usize, usize)| moments_of(&row[start..end]);
        parts.iter().flat_map(of_part).collect()
    };
    let moments: Vec<f32> = values.chunks(row).flat_map(of_row).collect();
    run.tensor::<f32>(&moments)
}

/// Normalises the case's input, with statistics in `parts` parts of a row.
fn normalised<T: Storage>(
    run: &Run,
    norm: &Norm,
    case: &Case,
    moments: &Tensor<f32>,
    parts: u32,
) -> Result<Tensor<T>, Failure> {
    let Loaded { x, parameters } = run.load::<T>(case)?;
    let g = norm.geometry().affine(true, true).counted(parts);
    let g = g.apply(size_of::<T>() as u32);
    let y = run.empty::<T>(norm.len())?;
    let none = std::ptr::null();
    let [w, b] = [0, 1].map(|index| parameters[index].source());
    let list = PointwiseList::EMPTY;
    let arguments = (
        x.source(),
        moments.source(),
        none,
        w,
        b,
        none,
        y.ptr(),
        g,
        list,
    );
    let family = &GROUP_NORM_SCALE_POINTWISE;
    run.launch(family, &[label::<T>()], g.shape(), arguments)?;
    Ok(y)
}

/// The moments of `values`: count, mean, sum of squared deviations, 0.
fn moments_of(values: &[f64]) -> [f32; 4] {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let m2: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    [count as f32, mean as f32, m2 as f32, 0.0]
}
