//! The pointwise functions, alone and in lists.

use cuda_std::{Label, Storage, bf16, f16};
use launch_config::pointwise::{Function, MAX_STEPS, OperandList, PointwiseList, Step, shape};
use op_spec::graph::{Layer, OtherTensor};
use op_spec::{GeluApproximation, PointwiseSpec};
use oracle::numbers;

use super::super::kernels::pointwise::{POINTWISE, POINTWISE_KEPT, POINTWISE_RESIDUAL};
use super::{
    Failure, Loaded, Outcome, Run, case, compare, expected, label, optional, rounded_once, stored,
};

/// A list of layers: functions, at most one residual, and arithmetic with the output of an earlier layer.
pub(super) fn list(layers: &[Layer]) -> OperandList {
    let (mut steps, mut list) = (Vec::new(), OperandList::EMPTY);
    for (number, layer) in layers.iter().enumerate() {
        match layer {
            Layer::Pointwise(function) => steps.push(Step::of(function)),
            Layer::Arithmetic(layer) => match layer.other {
                OtherTensor::Layer(_) => {
                    steps.push(Step::plain(Function::of_kept(layer.operation)));
                }
                _ => {
                    list.residual_at = steps.len() as u32;
                    list.residual_operation = layer.operation;
                }
            },
            other => panic!("{} is no function of single values", other.operator()),
        }
        let takes = |later: &Layer| matches!(later, Layer::Arithmetic(of) if of.other == OtherTensor::Layer(number));
        if layers.iter().any(takes) {
            steps.push(Step::plain(Function::Keep));
        }
    }
    assert!(steps.len() <= MAX_STEPS, "more than a list takes");
    list.functions = PointwiseList::take(&mut steps.into_iter());
    list
}

/// Checks clamps with bounds that are present, absent and crossed, with NaN and infinities, in full and
/// partial blocks.
pub(crate) fn clamp<T: Storage>(run: &Run) -> Outcome {
    let all = [
        (-0.25, 0.5),
        (0.25, f64::INFINITY),
        (f64::NEG_INFINITY, 0.25),
        (f64::NEG_INFINITY, f64::INFINITY),
        (0.5, -0.5),
    ];
    for (min, max) in all {
        let layers = [Layer::clamp(min, max)];
        let case = case::<T>(layers.clone(), &[1, 1, 5001]).special();
        let x = run.load::<T>(&case)?.x;
        let y = run.empty::<T>(case.x.len())?;
        let len = case.x.len() as u64;
        for (y, place) in [(&y, "elsewhere"), (&x, "in place")] {
            let arguments = (x.source(), y.ptr(), len, list(&layers).functions);
            run.launch(&POINTWISE, &[label::<T>()], shape(len), arguments)?;
            let what = format!("clamp {min} {max} {place}");
            compare(&what, y, &rounded_once::<T>(&case))?;
        }
    }
    Ok(())
}

/// Checks lists of no function, of each function alone, and of the maximum length. Each step finds its
/// attributes, and intermediate values are f32.
pub(crate) fn lists<T: Storage>(run: &Run) -> Outcome {
    let mut all: Vec<Vec<Layer>> = functions().into_iter().map(|one| vec![one]).collect();
    all.push(vec![Layer::elu(0.5), Layer::elu(3.0)]);
    all.push(vec![
        Layer::leaky_relu(-0.5),
        Layer::softplus(2.0, 20.0),
        Layer::clamp(0.25, 0.75),
        Layer::tanh(),
        Layer::leaky_relu(3.0),
        Layer::elu(0.75),
        Layer::sigmoid(),
        Layer::clamp(0.6, 0.7),
    ]);
    all.push(vec![Layer::silu(), Layer::add("residual"), Layer::tanh()]);
    all.push(vec![Layer::add("residual"), Layer::sigmoid()]);
    all.push(vec![Layer::tanh(), Layer::sub("residual"), Layer::silu()]);
    all.push(vec![Layer::sigmoid(), Layer::mul("residual")]);
    all.push(vec![Layer::div("residual"), Layer::tanh()]);
    // `x * tanh(x)` and similar lists, with and without a residual in between; with the kept value as first
    // or second operand.
    let first = || OtherTensor::Layer(0);
    let arithmetic: [fn(OtherTensor) -> Layer; 4] =
        [Layer::add, Layer::sub, Layer::mul, Layer::div];
    for of_kept in arithmetic {
        all.push(vec![Layer::tanh(), Layer::sigmoid(), of_kept(first())]);
    }
    all.push(vec![
        Layer::leaky_relu(0.5),
        Layer::add("residual"),
        Layer::sub(first()),
        Layer::sigmoid(),
        Layer::mul(OtherTensor::Layer(2)),
    ]);
    all.push([vec![Layer::tanh(); MAX_STEPS], vec![Layer::add("residual")]].concat());
    for layers in all {
        let case = case::<T>(layers.clone(), &[1, 3, 1667]);
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let y = run.empty::<T>(case.x.len())?;
        let len = case.x.len() as u64;
        let residual = optional(parameters.first());
        let (list, labels) = (list(&layers), [label::<T>()]);
        if list.functions.keeps().is_present() || list.has_residual() {
            let family = match list.functions.keeps().is_present() {
                true => &POINTWISE_KEPT,
                false => &POINTWISE_RESIDUAL,
            };
            let arguments = (x.source(), residual, y.ptr(), len, list);
            run.launch(family, &labels, shape(len), arguments)?;
        } else {
            let arguments = (x.source(), y.ptr(), len, list.functions);
            run.launch(&POINTWISE, &labels, shape(len), arguments)?;
        }
        compare(&case.name, &y, &expected::<T>(&case))?;
    }
    let x = run.tensor::<T>(&[1.5, -2.0])?;
    let y = run.empty::<T>(2)?;
    let arguments = (x.source(), y.ptr(), 2, PointwiseList::EMPTY);
    run.launch(&POINTWISE, &[label::<T>()], shape(2), arguments)?;
    match y.values()?[..] {
        [1.5, -2.0] => Ok(()),
        ref other => Err(Failure(format!("a list of nothing gives {other:?}"))),
    }
}

/// Every function, with attributes that are exact in f32.
fn functions() -> Vec<Layer> {
    vec![
        Layer::relu(),
        Layer::leaky_relu(0.125),
        Layer::silu(),
        Layer::gelu(GeluApproximation::None),
        Layer::gelu(GeluApproximation::Tanh),
        Layer::sigmoid(),
        Layer::tanh(),
        Layer::hardswish(),
        Layer::elu(1.5),
        Layer::softplus(1.0, 20.0),
        Layer::softplus(-2.5, 30.0),
        Layer::softplus(2.0, 1.0),
        Layer::mish(),
        Layer::hardtanh(-0.5, 0.25),
        Layer::hardsigmoid(),
        Layer::add(0.375),
        Layer::sub(0.375),
        Layer::mul(-0.75),
        Layer::div(0.75),
        Layer::minimum(0.375),
        Layer::maximum(0.375),
    ]
}

/// The tolerance of a function everywhere, in units of 2^-24 of the value: the error seen in the emulator,
/// and one or two units for an approximate reciprocal on a device. 7 units are 3.5 to 7 ulps.
const UNITS: f64 = 7.0;

/// The tolerance of a function for 16-bit types, relative to the value, before the value is rounded.
const COARSE: f64 = 1.0 / (1u64 << 16) as f64;

/// Magnitudes below this may become 0 in functions for 16-bit types.
const COARSE_SMALLEST: f64 = 128.0 * f32::MIN_POSITIVE as f64;

/// Numbers of all magnitudes, with NaN and infinities: those at bounds, and random ones, more of them where
/// formulas change. All numbers of a type of 16 bits.
fn magnitudes<T: Storage>() -> Vec<f32> {
    if size_of::<T>() == 2 {
        // An element of 16 bits has the bits of an f16 or of a bf16.
        let of_bits = |bits: u16| match label::<T>() {
            Label::Name("f16") => f16::from_bits(bits).to_f32(),
            _ => bf16::from_bits(bits).to_f32(),
        };
        return (0..=u16::MAX).map(of_bits).collect();
    }
    let mut values = numbers::at_bounds();
    values.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
    let mut random = 1u32;
    for exponent in 0..255u32 {
        let count = if (112..136).contains(&exponent) {
            200
        } else {
            8
        };
        for _ in 0..count {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for sign in [0, 1 << 31] {
                values.push(f32::from_bits(sign | exponent << 23 | random >> 9));
            }
        }
    }
    values
}

/// Checks every function at [`magnitudes`]. The relative error is bounded, however small the value, and a
/// zero has the right sign.
pub(crate) fn all_magnitudes<T: Storage>(run: &Run) -> Outcome {
    let values = magnitudes::<T>();
    for layer in functions() {
        let layers = [layer];
        let mut case = case::<T>(layers.clone(), &[1, 1, values.len()]);
        case.x.iter_mut().zip(&values).for_each(|(x, &v)| *x = v);
        let wanted = case.reference().expect("a layer that takes any input");
        let x = run.tensor::<T>(&values)?;
        let y = run.empty::<T>(values.len())?;
        let len = values.len() as u64;
        let arguments = (x.source(), y.ptr(), len, list(&layers).functions);
        run.launch(&POINTWISE, &[label::<T>()], shape(len), arguments)?;
        for ((x, y), &want) in values.iter().zip(y.values()?).zip(&wanted) {
            let off = (f64::from(y) - want).abs();
            let smallest = f64::from(f32::MIN_POSITIVE);
            let near = match size_of::<T>() {
                4 => off <= UNITS / f64::from(1 << 24) * want.abs().max(smallest),
                _ => {
                    // The results of rounding the bounds of the value.
                    let bound = COARSE * want.abs() + COARSE_SMALLEST;
                    let [low, high] = [want - bound, want + bound].map(|v| stored::<T>(v as f32));
                    (low..=high).contains(&y)
                }
            };
            let right = if want.is_nan() {
                y.is_nan()
            } else {
                f64::from(y) == want || y == stored::<T>(want as f32) || near
            };
            if !right || !want.is_nan() && y.is_sign_negative() != want.is_sign_negative() {
                let what = match &layers[0] {
                    Layer::Pointwise(function @ PointwiseSpec::Gelu { .. }) => {
                        format!("{function:?}")
                    }
                    layer => layer.operator().to_owned(),
                };
                return Err(Failure(format!("{what} of {x:e} is {y:e}, want {want:e}")));
            }
        }
    }
    Ok(())
}
