//! Norms of statistics that another kernel left, in parts of any length.

use cuda_std::Storage;
use op_spec::chain::Layer;
use op_spec::launch::pointwise::PointwiseList;

use super::super::kernels::fused::group_norm_scale_pointwise::GROUP_NORM_SCALE_POINTWISE;
use super::norm::Norm;
use super::{Loaded, Outcome, Run, compare, expected, label};

/// Rows whose moments come in parts of one value, of two, of three and of all that is left.
const PARTS: u32 = 4;

/// Rows of 21 elements and of 404, statistics in parts, normalised with weight and bias.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (channels, groups, spatial) in [(12, 4, 7), (8, 2, 101)] {
        let norm = Norm {
            n: 2,
            channels,
            groups,
            spatial,
            shift: 10.0,
        };
        let case = norm.case::<T>([Layer::group_norm("norm", groups)]);
        let values: Vec<f64> = case.x.iter().map(|&x| f64::from(x)).collect();
        let moments = values.chunks(channels / groups * spatial).flat_map(|row| {
            let (one, rest) = row.split_at(1);
            let (two, rest) = rest.split_at(2);
            let (three, rest) = rest.split_at(3);
            [one, two, three, rest].map(moments_of)
        });
        let moments: Vec<f32> = moments.flatten().collect();
        let moments = run.tensor::<f32>(&moments)?;
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let g = norm.geometry().affine(true, true).counted(PARTS);
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
        compare(&case.name, &y, &expected::<T>(&case))?;
    }
    Ok(())
}

/// Count, mean, sum of squared deviations, 0.
fn moments_of(values: &[f64]) -> [f32; 4] {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let m2: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    [count as f32, mean as f32, m2 as f32, 0.0]
}
