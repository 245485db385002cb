//! Means and sums of a convolution's results, by the sums of the inputs that meet each tap.

use launch_config::conv_mean::Convolved;
use op_spec::graph::{Layer, LayerProblem};
use op_spec::{ReductionOp, ReductionSpec};
use oracle::Case;

use super::super::kernels::conv::{CONV_MEAN, CONV_TAP_SUMS};
use super::conv_transpose::{Row, row};
use super::{Loaded, Outcome, Run, case, compare, expected, label, optional};

/// Convolutions of these attributes, transposed and not: a single element; more rows than warps, and rows of
/// several rounds of loads; every tap of a warp, with edges that many of them miss; strides that skip inputs,
/// dilation and groups; a padding beyond which some taps meet no input.
fn rows() -> Vec<Row> {
    vec![
        row([1, 1, 1, 1, 1], 1, [1; 3], [1; 3]),
        row([2, 3, 1, 11, 141], 5, [1, 3, 3], [1, 1, 1]),
        Row {
            padding: [1, 1, 1],
            ..row([1, 2, 5, 4, 37], 3, [3; 3], [2; 3])
        },
        Row {
            padding: [0, 1, 3],
            bias: false,
            ..row([3, 2, 1, 9, 33], 9, [1, 4, 8], [1, 2, 3])
        },
        Row {
            padding: [1, 2, 2],
            dilation: [1, 2, 3],
            groups: 2,
            ..row([2, 4, 6, 9, 17], 6, [2, 3, 3], [1, 3, 2])
        },
        Row {
            padding: [0, 2, 2],
            ..row([1, 3, 1, 3, 2], 4, [1, 5, 5], [1, 1, 1])
        },
    ]
}

/// The convolution with a row's attributes.
fn convolution(row: &Row) -> Layer {
    Layer::from(
        Layer::conv3d("conv", row.out_channels, row.kernel)
            .stride(row.stride)
            .padding(row.padding)
            .dilation(row.dilation)
            .groups(row.groups)
            .bias(row.bias),
    )
}

fn convolved(case: &Case) -> Convolved {
    match &case.problem().expect("a valid case").steps[0].problem {
        LayerProblem::Conv3d(problem) => problem.into(),
        LayerProblem::ConvTranspose3d(problem) => problem.into(),
        other => panic!("no convolution of volumes: {other:?}"),
    }
}

fn check(run: &Run, case: &Case, is_mean: bool) -> Outcome {
    let problem = case.problem().expect("a valid case");
    let results: usize = problem.steps[0].output[2..].iter().product();
    let divisor = if is_mean { results } else { 1 };
    let of = convolved(case);
    let Loaded { x, parameters } = run.load::<f32>(case)?;
    let g = of.tap_sums().expect("a small case");
    let sums = run.empty::<f32>(g.planes as usize * g.all_taps() as usize)?;
    run.launch(
        &CONV_TAP_SUMS,
        &[label::<f32>()],
        g.shape(),
        (x.source(), sums.ptr(), g),
    )?;
    let g = of.mean(divisor as f32, [1.0, 0.0]);
    let y = run.empty::<f32>(g.samples as usize * g.channels() as usize)?;
    let bias = optional(parameters.get(1));
    let arguments = (sums.source(), parameters[0].source(), bias, y.ptr(), g);
    run.launch(&CONV_MEAN, &[label::<f32>()], g.shape(), arguments)?;
    compare(&case.name, &y, &expected::<f32>(case))
}

/// Checks every row, as means and as sums, also with NaN and infinities.
pub(crate) fn matches(run: &Run) -> Outcome {
    for row in rows() {
        for layer in [convolution(&row), row.layer()] {
            for operation in [ReductionOp::Mean, ReductionOp::Sum] {
                let reduction = ReductionSpec::new(operation, &[2, 3, 4]);
                let case = case::<f32>([layer.clone(), Layer::from(reduction)], &row.input);
                check(run, &case, operation == ReductionOp::Mean)?;
            }
        }
    }
    Ok(())
}
