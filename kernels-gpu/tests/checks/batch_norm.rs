//! Batch norm: four parameters folded into two, and the map that these make.

use cuda_std::Storage;
use launch_config::KernelGeometry;
use launch_config::batch_norm::FoldGeometry;
use launch_config::elementwise::{fold_shape, shape};
use op_spec::BatchNormSpec;
use op_spec::graph::Layer;

use super::super::kernels::batch_norm::{BATCH_NORM, FOLD_BATCH_NORM};
use super::elementwise::SHAPES;
use super::norm::optional;
use super::{Loaded, Outcome, Run, case, compare, direct, expected, label, stored};

/// The folded parameters to the last bit of f32, with and without weight and bias, or with one of them alone;
/// then every shape, and in place.
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
            vector,
            vector,
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
