//! Implicit GEMMs that store their results through lists.

use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{GemmConfig, GemmDevice, OperandFormat, RoundedEpilogue};
use launch_config::pointwise::{self, Function, OperandList, PointwiseList, Step};
use op_spec::ArithmeticOp;
use op_spec::graph::{Layer, OtherTensor};

use super::super::kernels::pointwise::{POINTWISE_KEPT, POINTWISE_RESIDUAL};
use super::convolved::Operand;
use super::implicit_gemm_launch::{Ended, Operands, multiply_to_nhwc};
use super::pointwise::list;
use super::{Failure, Outcome, Run, Tensor, label, optional, stored};

/// Every function of a list.
const FUNCTIONS: [Function; 13] = [
    Function::Hardswish,
    Function::Silu,
    Function::Gelu,
    Function::GeluTanh,
    Function::Softplus,
    Function::Affine,
    Function::LeakyRelu,
    Function::Mish,
    Function::Elu,
    Function::Clamp,
    Function::Hardsigmoid,
    Function::Sigmoid,
    Function::Tanh,
];

/// Functions that keep a value and use it again. They make no NaN of finite values; the fix-up pass would
/// recompute a NaN.
const KEPT: [Function; 8] = [
    Function::Keep,
    Function::Hardsigmoid,
    Function::MulKept,
    Function::AddKept,
    Function::Keep,
    Function::Sigmoid,
    Function::SubKept,
    Function::DivKept,
];

/// The lists of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lists {
    /// One list with gain and shift in front, and one with these after a function and a kept value.
    Affine,
    /// The lists of `Affine`, and others with all functions.
    All,
    /// The lists of `Affine`, and some with a residual.
    WithResidual,
}

/// Checks that `multiply` with lists gives the bits of the same lists on `y`, an NCHW output. A separate
/// kernel applies some lists. Others have functions before and after gain and shift of each channel, and some
/// keep values.
pub(super) fn listed<F: Operand>(
    run: &Run,
    what: &str,
    (conv, lists): (&ConvGeometry, Lists),
    ended: &Ended<F::Stored>,
    y: &Tensor<F::Stored>,
    multiply: impl Fn(&Ended<F::Stored>) -> Result<Vec<f32>, Failure>,
) -> Outcome {
    let (values, channels) = (y.values()?, conv.output_channels() as usize);
    let pixels = conv.output_pixels() as usize;
    let gain = |channel: usize| 0.5 * (channel % 7) as f32 - 0.75;
    let shift = |channel: usize| 0.25 - 0.5 * (channel % 5) as f32;
    let [gains, shifts] = [
        run.tensor::<f32>(&(0..channels).map(gain).collect::<Vec<_>>())?,
        run.tensor::<f32>(&(0..channels).map(shift).collect::<Vec<_>>())?,
    ];
    let affine = |index: usize, x: f32| {
        let channel = index / pixels % channels;
        gain(channel).mul_add(x, shift(channel))
    };
    let hardswish = |x: f32| match x.is_nan() {
        true => x,
        false => x * ((x + 3.0).clamp(0.0, 6.0) * (1.0 / 6.0)),
    };
    let leaky_relu = |x: f32| if x > 0.0 { x } else { x * 0.25 };
    let mapped = |f: &dyn Fn(usize, f32) -> f32| {
        let each = values.iter().enumerate().map(|(index, &x)| f(index, x));
        run.tensor::<F::Stored>(&each.map(stored::<F::Stored>).collect::<Vec<_>>())
    };

    let of_index = |index: usize| (index % 11) as f32 * 0.5 - 2.5;
    let residual = run.tensor::<F::Stored>(&(0..values.len()).map(of_index).collect::<Vec<_>>())?;
    let by_itself = |list: OperandList| {
        let wanted = run.empty::<F::Stored>(values.len())?;
        let len = values.len() as u64;
        let arguments = (y.source(), residual.source(), wanted.ptr(), len, list);
        let (labels, shape) = ([label::<F::Stored>()], pointwise::shape(len));
        run.launch(&POINTWISE_KEPT, &labels, shape, arguments)?;
        Ok::<_, Failure>(wanted)
    };
    // All functions, in two lists.
    let [first, second, kept] = [&FUNCTIONS[..8], &FUNCTIONS[8..], &KEPT].map(|functions| {
        let steps = functions.iter().map(|&of| Step::new(of, [0.5, 2.0, 2.0]));
        OperandList {
            functions: PointwiseList::take(&mut steps.into_iter()),
            ..OperandList::EMPTY
        }
    });
    let behind = OperandList {
        affine_at: 2,
        ..list(&[
            Layer::hardswish(),
            Layer::mul(OtherTensor::Layer(0)),
            Layer::relu(),
        ])
    };
    let before = OperandList {
        affine_at: 0,
        ..list(&[Layer::leaky_relu(0.25)])
    };
    let mut all = vec![
        (
            "affine, leaky_relu",
            before,
            mapped(&|index, x| leaky_relu(affine(index, x)))?,
        ),
        (
            "hardswish, affine, mul, relu",
            behind,
            mapped(&|index, x| {
                let gate = hardswish(x);
                let y = affine(index, gate) * gate;
                if y.is_nan() || y > 0.0 { y } else { 0.0 }
            })?,
        ),
    ];
    match lists {
        Lists::Affine => {}
        Lists::All => {
            all.push(("functions", first, by_itself(first)?));
            all.push(("further functions", second, by_itself(second)?));
            all.push(("kept values", kept, by_itself(kept)?));
        }
        Lists::WithResidual => {
            let gated = [
                Layer::add("residual"),
                Layer::hardswish(),
                Layer::mul(OtherTensor::Layer(0)),
            ];
            let gated = list(&gated);
            all.push(("residual, hardswish, mul", gated, by_itself(gated)?));
            let silu = list(&[Layer::silu(), Layer::div("residual"), Layer::tanh()]);
            all.push(("silu, residual, tanh", silu, by_itself(silu)?));
            let apart = OperandList {
                residual_at: 0,
                residual_operation: ArithmeticOp::Sub,
                affine_at: 0,
                ..OperandList::EMPTY
            };
            let wanted = mapped(&|index, x| affine(index, x - of_index(index)))?;
            all.push(("sub, affine", apart, wanted));
        }
    }
    for (name, list, wanted) in run.variants(what, &all) {
        let steps = &list.functions.steps()[..list.functions.len()];
        let is_coarse = F::OPERANDS == OperandFormat::SCALED_F16
            && steps.iter().any(|step| step.function.has_exponential());
        let ended = Ended {
            list: *list,
            gain_behind: gains.source(),
            shift_behind: shifts.source(),
            residual: residual.source(),
            ..*ended
        };
        let got = multiply(&ended)?;
        for (index, (got, wanted)) in got.iter().zip(wanted.values()?).enumerate() {
            let is_same = got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan();
            // `by_itself` applies accurate functions to f32; eight coarse ones in turn are off by 2^-13.
            let is_close = is_coarse && (got - wanted).abs() <= wanted.abs().max(1.0) / 8192.0;
            if !is_same && !is_close {
                let problem = format!("{what}, {name}: {index} is {got}, not {wanted}");
                return Err(Failure(problem));
            }
        }
    }
    Ok(())
}

/// Checks NHWC outputs on devices whose tiles write them. They have the bits of `y`, and with a list those of
/// a kernel that applies the list to `y`.
pub(super) fn nhwc<F: Operand>(
    run: &Run,
    what: &str,
    (config, devices): (&GemmConfig, &[&GemmDevice]),
    (operands, bias, ended): (&Operands, &Tensor<F::Stored>, &Ended<F::Stored>),
    y: &Tensor<F::Stored>,
    lists: &[Vec<Layer>],
) -> Outcome {
    let devices = devices.iter();
    let devices = devices.filter(|d| config.writes_nhwc(d, size_of::<F::Stored>() as u32));
    if devices.clone().next().is_none() {
        return Ok(());
    }
    let conv = &config.geometry.conv;
    let channels = conv.output_channels() as usize;
    let (values, pixels) = (y.values()?, conv.output_pixels() as usize);
    // The NCHW index.
    let place = |index: usize| {
        let (pixel, channel) = (index / channels, index % channels);
        (pixel / pixels * channels + channel) * pixels + pixel % pixels
    };
    let in_nhwc = |index: usize| values[place(index)];
    let plain: Vec<f32> = (0..values.len()).map(in_nhwc).collect();
    let plain = run.tensor::<F::Stored>(&plain)?;
    let of_index = |index: usize| (index % 13) as f32 * 0.25 - 1.5;
    let residual: Vec<f32> = (0..values.len()).map(of_index).collect();
    let residual = run.tensor::<F::Stored>(&residual)?;
    for device in devices.clone() {
        listed::<F>(run, what, (conv, Lists::Affine), ended, y, |ended| {
            let got = run.empty::<F::Stored>(values.len())?;
            let rounded = (RoundedEpilogue::NONE, std::ptr::null());
            multiply_to_nhwc::<F>(run, config, device, operands, bias, ended, rounded, &got)?;
            let (got, mut in_nchw) = (got.values()?, vec![0.0; values.len()]);
            for (index, value) in got.into_iter().enumerate() {
                in_nchw[place(index)] = value;
            }
            Ok(in_nchw)
        })?;
    }
    for layers in run.variants(what, lists) {
        let list = list(layers);
        let wanted = run.empty::<F::Stored>(values.len())?;
        let len = values.len() as u64;
        let arguments = (plain.source(), residual.source(), wanted.ptr(), len, list);
        let labels = [label::<F::Stored>()];
        if !layers.is_empty() {
            let shape = pointwise::shape(len);
            run.launch(&POINTWISE_RESIDUAL, &labels, shape, arguments)?;
        }
        let wanted = if layers.is_empty() { &plain } else { &wanted };
        for device in devices.clone() {
            let got = run.empty::<F::Stored>(values.len())?;
            let added = list.has_residual().then_some(&residual);
            let rounded = RoundedEpilogue::of(&list).expect("a list that a store applies");
            let rounded = (rounded, optional(added));
            multiply_to_nhwc::<F>(run, config, device, operands, bias, ended, rounded, &got)?;
            let what = format!("{what}, NHWC, {layers:?}");
            // The sum of two NaN may be either of them.
            for (got, wanted) in got.values()?.iter().zip(wanted.values()?) {
                let is_same = got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan();
                if !is_same {
                    let problem = format!("{what}: {got}, not {wanted} with the same bits");
                    return Err(Failure(problem));
                }
            }
        }
    }
    Ok(())
}
