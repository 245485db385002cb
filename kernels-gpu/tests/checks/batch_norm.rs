//! Batch norm: four parameters folded into a gain and a shift, and the map by both; and the moments of the
//! batch.

use cuda_std::Storage;
use launch_config::KernelGeometry;
use launch_config::batch_norm::{BatchMoments, FoldGeometry};
use launch_config::elementwise::{fold_shape, shape};
use launch_config::pointwise::PointwiseList;
use ndarray::Axis;
use op_spec::BatchNormSpec;
use op_spec::graph::Layer;

use super::super::kernels::batch_norm::{BATCH_NORM, BATCH_NORM_MOMENTS, FOLD_BATCH_NORM};
use super::super::kernels::fused::group_norm_scale_pointwise::GROUP_NORM_SCALE_POINTWISE;
use super::elementwise::SHAPES;
use super::norm::statistics;
use super::{
    Loaded, Outcome, Run, case, compare, direct, expected, label, optional, same_bits, stored,
};

/// The folded parameters to the last bit of f32, with and without weight and bias, and with one of them
/// alone; then the map on every shape, also in place.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (index, (n, c, spatial)) in SHAPES.into_iter().enumerate() {
        let [has_weight, has_bias] = match index {
            1 => [true, false],
            2 => [false, true],
            _ => [index % 2 == 0; 2],
        };
        let layer = Layer::from(Layer::batch_norm("norm").eps(1e-3).affine(true));
        let mut case = case::<T>([layer], &[n, c, spatial]);
        case.parameters[1].mapv_inplace(|v| stored::<T>(v.abs() + 0.1));
        for (index, has, absent) in [(2, has_weight, 1.0), (3, has_bias, 0.0)] {
            if !has {
                case.parameters[index].fill(absent);
            }
        }
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let vector = &[c][..];
        let problem = BatchNormSpec::default().eps(1e-3).problem(
            &[n, c, spatial],
            Some([vector; 2]),
            has_weight.then_some(vector),
            has_bias.then_some(vector),
        );
        let problem = problem.expect("a batch norm");
        let [gain, shift] = [run.empty::<f32>(c)?, run.empty::<f32>(c)?];
        let arguments = (
            parameters[0].source(),
            parameters[1].source(),
            optional(has_weight.then_some(&parameters[2])),
            optional(has_bias.then_some(&parameters[3])),
            gain.ptr(),
            shift.ptr(),
            FoldGeometry::of(&problem).expect("few channels"),
        );
        let labels = [label::<T>()];
        run.launch(&FOLD_BATCH_NORM, &labels, fold_shape(c as u32), arguments)?;
        let exact = (0..c).map(|c| {
            let parameters = [0, 1, 2, 3].map(|index| f64::from(case.parameters[index][c]));
            problem.gain_and_shift(parameters, f64::sqrt)
        });
        let exact: Vec<[f64; 2]> = exact.collect();
        for (index, got) in [&gain, &shift].into_iter().enumerate() {
            let wanted = exact.iter().map(|of| (f64::from(of[index] as f32), 0.0));
            compare("folded", got, &direct::<f32>(wanted))?;
        }

        let wanted = expected::<T>(&case);
        let y = run.empty::<T>(case.x.len())?;
        let g = problem.geometry().expect("few channels");
        for (y, place) in [(&y, "elsewhere"), (&x, "in place")] {
            let arguments = (x.source(), gain.source(), shift.source(), y.ptr(), g);
            run.launch(&BATCH_NORM, &labels, shape(g.elements), arguments)?;
            compare(&format!("{} {place}", case.name), y, &wanted)?;
        }
    }
    Ok(())
}

/// Batches, channels, elements of a plane, and the shift of the input: single elements, more samples than a
/// block has threads, rows of two unequal splits, a mean far from zero.
const BATCHES: [(usize, usize, usize, f32); 6] = [
    (2, 3, 1, 0.0),
    (37, 5, 7, 0.0),
    (259, 3, 4, 10.0),
    (5, 4, 1025, -300.0),
    (3, 2, 9001, 1000.0),
    (1, 3, 101, 0.0),
];

/// The norm with batch statistics, and the update of running statistics, also in place.
pub(crate) fn by_batch<T: Storage>(run: &Run) -> Outcome {
    let momentum = 0.25;
    for (n, c, spatial, shift) in BATCHES {
        let layer = Layer::batch_norm("norm").eps(1e-3).training(true);
        let case = case::<T>([Layer::from(layer.momentum(momentum))], &[n, c, spatial]);
        let case = case.shifted(shift).rounded(stored::<T>);
        let what = &case.name;
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let [w, b] = [0, 1].map(|index| parameters[index].source());
        let vector = Some(&[c][..]);
        let spec = BatchNormSpec::default().eps(1e-3).training(true);
        let problem = spec.problem(&[n, c, spatial], None, vector, vector);
        let norm = problem.expect("a batch norm").as_group_norm();
        let norm = norm.geometry().expect("small extents");
        let partials = statistics(run, &x, norm)?;
        let of_batch = norm.of_batch();
        let mut first = None;
        for momentum in [None, Some(momentum)] {
            let running: Vec<Vec<f32>> = (case.parameters[2..].iter())
                .map(|values| values.iter().copied().collect())
                .collect();
            let [mean, variance] = [run.tensor::<f32>(&running[0])?, run.tensor(&running[1])?];
            let moments = run.empty::<f32>(of_batch.partial_elements() as usize)?;
            let g = BatchMoments::new(norm, momentum);
            let at = |tensor| -> *const f32 { optional(momentum.map(|_| tensor)) };
            let arguments = (
                partials.source(),
                moments.ptr(),
                at(&mean),
                at(&variance),
                at(&mean).cast_mut(),
                at(&variance).cast_mut(),
                g,
            );
            run.launch(&BATCH_NORM_MOMENTS, &[], g.shape(), arguments)?;
            let y = run.empty::<T>(case.x.len())?;
            let g = of_batch.apply(size_of::<T>() as u32);
            let (none, list) = (std::ptr::null(), PointwiseList::EMPTY);
            let (x, moments) = (x.source(), moments.source());
            let arguments = (x, moments, none, w, b, none, y.ptr(), g, list);
            let labels = [label::<T>()];
            run.launch(&GROUP_NORM_SCALE_POINTWISE, &labels, g.shape(), arguments)?;
            match &first {
                None => {
                    compare(what, &y, &expected::<T>(&case))?;
                    first = Some(y);
                }
                Some(first) => same_bits(what, &y, first)?,
            }
            // Computed in f64 from the stored input; the additions chain over a thread, a block, and the
            // channel's rows.
            let weight = momentum.unwrap_or(0.0);
            let chain = (n * spatial).div_ceil(256) + 16;
            let unit = (4.0 + (chain as f64).sqrt()) * f64::from(f32::EPSILON);
            let channels = case.x.axis_iter(Axis(1)).enumerate();
            let wanted = channels.map(|(channel, x)| {
                let x = x.mapv(f64::from);
                let count = x.len() as f64;
                let (mean, size) = (x.sum() / count, x.mapv(f64::abs).sum() / count);
                let m2 = x.mapv(|v| (v - mean).powi(2)).sum();
                let of_mean = (mean, unit * size);
                // An error `t` in the means of parts changes deviations by `t`.
                let (of_variance, t) = (m2 / (count - 1.0), unit * size);
                let off = unit * of_variance + 2.0 * t * of_variance.sqrt() + t * t;
                let of_variance = (of_variance, off);
                [of_mean, of_variance]
                    .into_iter()
                    .zip(&running)
                    .map(|((value, t), running)| {
                        let old = f64::from(running[channel]);
                        let new = (1.0 - weight) * old + weight * value;
                        (
                            new,
                            weight * t + f64::from(f32::EPSILON) * (old.abs() + new.abs()),
                        )
                    })
                    .collect::<Vec<_>>()
            });
            let wanted: Vec<Vec<(f64, f64)>> = wanted.collect();
            for (index, got) in [&mean, &variance].into_iter().enumerate() {
                let wanted = wanted.iter().map(|of| of[index]);
                compare(&format!("{what}: renewed"), got, &direct::<f32>(wanted))?;
            }
        }
    }
    Ok(())
}
