//! Reductions over channels, alone and after other layers.

use cuda_std::{Label, Storage, bf16, f16};
use launch_config::channel_reduction::ChannelReductionGeometry;
use launch_config::elementwise::Bounds;
use launch_config::{AffineType, ElementType};
use op_spec::graph::Layer;
use op_spec::{ReductionOp, ReductionSpec};
use oracle::{Case, Expected};

use super::super::kernels::channel_reduction::*;
use super::super::kernels::fused::clamp_multiply_channel_reduction::*;
use super::super::kernels::fused::instance_norm_clamp_multiply_channel_reduction::*;
use super::norm::{Norm, statistics};
use super::{
    Failure, Loaded, Outcome, Run, Tensor, case, compare, element_type, expected, label, optional,
    rounded_once, same_bits, stored,
};

/// `(n, channels, spatial)`: one channel, one position, spatial extents that are and are not whole vectors,
/// one channel more than a warp has lanes, more channels than are staged at a time, a row of several splits.
const SHAPES: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (2, 7, 30),
    (3, 16, 64),
    (2, 33, 35),
    (1, 40, 1025),
    (2, 300, 6),
    (1, 259, 8),
    (1, 2, 9000),
];

/// Shapes with enough positions that each channel from the 225th on is the largest or the smallest somewhere.
/// Some of these channels come before and some after the end of the first stage. One shape has whole vectors
/// and one has not.
const DECIDED: [(usize, usize, usize); 2] = [(4, 287, 31), (2, 280, 56)];

/// Makes one channel the largest at each position of a sample, or the smallest in every other sample, from
/// the last channel on. Its multiplier differs from that of the channel 256 before.
fn decide<T: Storage>(case: &mut Case, multiplier: Option<usize>) {
    let (c, spatial) = (case.x.shape()[1], case.x.shape()[2]);
    let winner = |sample: usize, position: usize| c - 1 - (sample * spatial + position) % c;
    for (index, x) in case.x.indexed_iter_mut() {
        let k = index[1];
        let sign = if index[0] % 2 == 0 { 1.0 } else { -1.0 };
        *x = stored::<T>(match winner(index[0], index[2]) == k {
            true => sign * (0.5 + (k % 61) as f32 / 256.0),
            false => sign * -0.25,
        });
    }
    if let Some(multiplier) = multiplier {
        let all = case.parameters[multiplier].iter_mut().enumerate();
        all.for_each(|(k, m)| *m = stored::<T>(0.5 + k as f32 / 1024.0));
    }
}

/// The geometry of a case's last layer.
fn geometry(case: &Case, operation: ReductionOp) -> ChannelReductionGeometry {
    let problem = ReductionSpec::new(operation, &[1]).problem(case.x.shape());
    problem
        .and_then(|problem| ChannelReductionGeometry::of(operation, &problem.passes()[0]))
        .expect("extents that a kernel has")
}

/// The expectation for a reduction after layers that compute one product at most.
fn of_products<T: Storage>(case: &Case, operation: ReductionOp) -> Expected {
    match operation.selects() {
        true => rounded_once::<T>(case),
        false => expected::<T>(case),
    }
}

fn reduction(operation: ReductionOp) -> Layer {
    ReductionSpec::new(operation, &[1]).into()
}

/// Plain reductions, and reductions after a clamp and a multiplication.
pub(crate) fn channel_reduction<T: Storage>(run: &Run) -> Outcome {
    let operations = ReductionOp::ALL.iter();
    operations
        .copied()
        .try_for_each(|operation| of_values::<T>(run, operation))
}

fn of_values<T: Storage>(run: &Run, operation: ReductionOp) -> Outcome {
    let labels = [operation.name().into(), label::<T>()];
    let random = SHAPES.into_iter().map(|shape| (shape, false));
    let decided = DECIDED.into_iter().map(|shape| (shape, true));
    for ((n, c, spatial), is_decided) in random.chain(decided) {
        let shape = [n, c, spatial];
        let mut plain = case::<T>([reduction(operation)], &shape).special();
        if is_decided {
            decide::<T>(&mut plain, None);
        }
        let x = run.load::<T>(&plain)?.x;
        let g = geometry(&plain, operation);
        let y = run.empty::<T>(n * spatial)?;
        let arguments = (
            x.source(),
            y.ptr(),
            g.with_results(c as f32, element_type::<T>()),
        );
        run.launch(&CHANNEL_REDUCTION, &labels, g.shape(), arguments)?;
        compare(&plain.name, &y, &of_products::<T>(&plain, operation))?;
        // Results between two steps are f32, and a mean has a divisor of its own in each step.
        let between = run.empty::<f32>(n * spatial)?;
        let arguments = (
            x.source(),
            between.ptr(),
            g.with_results(1.0, ElementType::F32),
        );
        run.launch(&CHANNEL_REDUCTION, &labels, g.shape(), arguments)?;
        let divisor = if operation == ReductionOp::Mean {
            c as f32
        } else {
            1.0
        };
        let results = between.values()?.into_iter().map(|value| value / divisor);
        let results: Vec<f32> = results.collect();
        let rounded = run.tensor::<T>(&results)?;
        same_bits(&format!("{} in f32", plain.name), &rounded, &y)?;
        // The last of several steps reads the f32 results of the step before, and rounds.
        if element_type::<T>() == ElementType::F32 {
            let g = |output| g.with_results(c as f32, output);
            rounds::<f16>(run, &labels, (&x, &g(ElementType::F16)), &results)?;
            rounds::<bf16>(run, &labels, (&x, &g(ElementType::BF16)), &results)?;
        }
        if !operation.is_fusible() {
            continue;
        }

        let layers = [
            Layer::clamp(-0.5, 0.75),
            Layer::from(Layer::scale("multiplier")),
            reduction(operation),
        ];
        let mut fused = case::<T>(layers, &shape).special();
        if is_decided {
            decide::<T>(&mut fused, Some(0));
        }
        let Loaded { x, parameters } = run.load::<T>(&fused)?;
        let y = run.empty::<T>(n * spatial)?;
        let bounds = Bounds::new(Some(-0.5), Some(0.75));
        let arguments = (x.source(), parameters[0].source(), y.ptr(), g, bounds);
        let family = &CLAMP_MULTIPLY_CHANNEL_REDUCTION;
        run.launch(family, &labels, g.shape(), arguments)?;
        compare(&fused.name, &y, &of_products::<T>(&fused, operation))?;
    }
    Ok(())
}

/// Checks that a reduction of f32 to `T` gives the rounded results of the reduction to f32.
fn rounds<T: Storage>(
    run: &Run,
    labels: &[Label],
    (x, g): (&Tensor<impl Storage>, &ChannelReductionGeometry),
    results: &[f32],
) -> Outcome {
    let y = run.empty::<T>(results.len())?;
    let arguments = (x.source(), y.ptr(), *g);
    run.launch(&CHANNEL_REDUCTION, labels, g.shape(), arguments)?;
    same_bits("rounded at the end", &run.tensor::<T>(results)?, &y)
}

/// Reductions after a multiplication, a norm, a clamp and another multiplication, with multipliers of either
/// sign and of 0; the norm with and without weight and bias, and with a weight alone.
pub(crate) fn normed<T: Storage>(run: &Run) -> Outcome {
    let operations = ReductionOp::ALL.iter().copied();
    operations
        .filter(|&operation| operation.is_fusible())
        .try_for_each(|operation| of_normed::<T>(run, operation))
}

fn of_normed<T: Storage>(run: &Run, operation: ReductionOp) -> Outcome {
    let random = SHAPES.into_iter().skip(1).map(|shape| (shape, false));
    let decided = DECIDED.into_iter().map(|shape| (shape, true));
    for ((n, channels, spatial), is_decided) in random.chain(decided) {
        let norm = Norm {
            n,
            channels,
            groups: channels,
            spatial,
            shift: 0.5,
        };
        // A weight without a bias where that takes no time.
        let combinations = [[false; 2], [true; 2], [true, false]];
        let few = combinations
            .into_iter()
            .take(if channels == 7 { 3 } else { 2 });
        for [has_weight, has_bias] in few {
            let layers = [
                Layer::from(Layer::scale("multiplier")),
                Layer::from(Layer::instance_norm("norm").affine(has_weight)),
                Layer::clamp(-1.0, 0.75),
                Layer::from(Layer::scale("multiplier")),
                reduction(operation),
            ];
            let mut case = norm.case::<T>(layers);
            if is_decided {
                decide::<T>(&mut case, Some(0));
            }
            case.parameters[0][channels / 2] = 0.0;
            if has_weight && !has_bias {
                case.parameters[2].fill(0.0);
            }
            let Loaded { x, parameters } = run.load::<T>(&case)?;
            let partials = statistics(run, &x, norm.geometry())?;
            let g = norm.geometry().affine(has_weight, has_bias);
            let reduced = geometry(&case, operation);
            let launched = |weight, bias, g| {
                let y = run.empty::<T>(n * spatial)?;
                let arguments = (
                    x.source(),
                    partials.source(),
                    weight,
                    bias,
                    parameters[0].source(),
                    y.ptr(),
                    g,
                    reduced,
                    Bounds::new(Some(-1.0), Some(0.75)),
                );
                let family = &INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_REDUCTION;
                let labels = [operation.name().into(), label::<T>()];
                run.launch(family, &labels, reduced.shape(), arguments)?;
                Ok::<_, Failure>(y)
            };
            let [w, b] = [Some(1), has_bias.then_some(2)];
            let of = |index: Option<usize>| optional(index.and_then(|at| parameters.get(at)));
            let y = launched(of(w), of(b), g)?;
            let what = format!("{operation:?} {norm:?} weight {has_weight}, bias {has_bias}");
            compare(&what, &y, &expected::<T>(&case))?;
            let in_f32 = run.load::<f32>(&case)?.parameters;
            let of = |index: Option<usize>| optional(index.and_then(|at| in_f32.get(at)));
            let wide = launched(of(w), of(b), g.with_affine_type(AffineType::F32))?;
            same_bits(&format!("{what} in f32"), &wide, &y)?;
        }
    }
    Ok(())
}
