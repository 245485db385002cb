//! Arithmetic with a parameter: operations folded one after another into a gain and a shift, and the map by
//! both.

use cuda_std::Storage;
use launch_config::KernelGeometry;
use launch_config::arithmetic::ArithmeticFold;
use launch_config::elementwise::{fold_shape, shape};
use op_spec::graph::{BroadcastParameter, Layer, LayerProblem};

use super::super::kernels::arithmetic::FOLD_ARITHMETIC;
use super::super::kernels::batch_norm::BATCH_NORM;
use super::elementwise::SHAPES;
use super::{
    Loaded, Outcome, Run, Tensor, case, compare, direct, expected, label, optional, same_bits,
    stored,
};

/// Every operation with a value for each channel and with one for all, to the last bit of f32, alone and
/// after an affine function; then the map on every shape.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    let operations: [fn(BroadcastParameter) -> Layer; 4] =
        [Layer::add, Layer::sub, Layer::mul, Layer::div];
    for (index, (n, c, spatial)) in SHAPES.into_iter().enumerate() {
        for (operation, is_one) in operations.into_iter().zip([false, true, true, false]) {
            // Each operation has both forms.
            let extent = if is_one != (index % 2 == 0) { c } else { 1 };
            let other = BroadcastParameter::new("other").shape(&[extent, 1]);
            let mut case = case::<T>([operation(other)], &[n, c, spatial]);
            case.parameters[0].mapv_inplace(|v| stored::<T>(v + v.signum()));
            let others = case.parameters[0].clone();
            let Loaded { x, parameters } = run.load::<T>(&case)?;
            let problem = case.problem().expect("a chain").steps[0].problem;
            let LayerProblem::Arithmetic(problem) = problem else {
                panic!("{problem:?} is no arithmetic");
            };
            let folded_of = |c: usize| {
                let index = if extent == 1 { 0 } else { c };
                let other = f64::from(others.as_slice().expect("a vector")[index]);
                problem.operation.gain_and_shift(other)
            };
            let before = [
                run.tensor::<f32>(&vec![-0.75; c])?,
                run.tensor::<f32>(&vec![1.5; c])?,
            ];
            let labels = [label::<T>()];
            let fold = |before: Option<[&Tensor<f32>; 2]>, to: &[Tensor<f32>; 2]| {
                let geometry = ArithmeticFold::of(&problem, before.is_some());
                let arguments = (
                    parameters[0].source(),
                    optional(before.map(|[gain, _]| gain)),
                    optional(before.map(|[_, shift]| shift)),
                    to[0].ptr(),
                    to[1].ptr(),
                    geometry.expect("few channels"),
                );
                run.launch(&FOLD_ARITHMETIC, &labels, fold_shape(c as u32), arguments)
            };
            let alone = [run.empty::<f32>(c)?, run.empty::<f32>(c)?];
            let behind = [run.empty::<f32>(c)?, run.empty::<f32>(c)?];
            fold(None, &alone)?;
            fold(Some([&before[0], &before[1]]), &behind)?;
            for part in 0..2 {
                let wanted = (0..c).map(|c| (f64::from(folded_of(c)[part] as f32), 0.0));
                compare("folded", &alone[part], &direct::<f32>(wanted))?;
                let wanted = (0..c).map(|c| {
                    let [factor, summand] = folded_of(c);
                    let exact = [factor * -0.75, factor * 1.5 + summand][part];
                    (f64::from(exact as f32), 0.0)
                });
                compare("folded behind", &behind[part], &direct::<f32>(wanted))?;
            }
            // A shift of 0 keeps its sign, whatever the sign of the factor.
            let zeros = run.tensor::<f32>(&vec![-0.0; c])?;
            fold(Some([&before[0], &zeros]), &behind)?;
            let wanted: Vec<f32> = (0..c).map(|c| (-0.0 + folded_of(c)[1]) as f32).collect();
            same_bits("folded behind 0", &behind[1], &run.tensor::<f32>(&wanted)?)?;
            let wanted = expected::<T>(&case);
            let y = run.empty::<T>(case.x.len())?;
            let g = problem.geometry().expect("few channels");
            let arguments = (x.source(), alone[0].source(), alone[1].source(), y.ptr(), g);
            run.launch(&BATCH_NORM, &labels, shape(g.elements), arguments)?;
            compare(&case.name, &y, &wanted)?;
        }
    }
    Ok(())
}
