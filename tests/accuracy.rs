//! Accuracy of the models for inputs of unusual magnitude.

use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::graph::{Chain, ConvLayer, Layer};
use convfuse::model::Strategy;
use convfuse::spec::ConvSpec;
use convfuse::{DType, Model, Options, Parameters, Tensor, data};
use libtest_mimic::{Failed, Trial};
use ndarray::{ArrayD, Axis, IxDyn, Slice};
use oracle::{Case, Precision};

use crate::backend::{Backend, Outcome};
use crate::chains::{self, Preset, presets};
use crate::suite::all_right;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in Backend::DEVICES {
        for factor in FACTORS {
            let name = format!("are_accurate_on_inputs_times_{factor}");
            for preset in presets() {
                let group = format!("models::{}", preset.number);
                trials.push(backend.trial(&group, &name, move |backend| {
                    scaled_input(backend, &preset, factor)
                }));
            }
        }
    }
    let name = "give_the_bias_for_a_constant_input_in_16_bits";
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "models",
        &[(name, constant_in_16_bits)],
    ));
    let name = "are_accurate_where_channels_differ_by_10_000";
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "models",
        &[(name, channels_apart)],
    ));
    let name = "are_accurate_on_sums_of_thousands_of_terms";
    trials.push(Backend::Gpu.trial("models::85", name, long_sums_of_85));
    trials.push(Backend::Gpu.trial("models::79", name, long_sums_of_79));
    trials
}

/// Factors of the inputs, which are uniform in [0, 1).
const FACTORS: [f32; 3] = [3.0, 0.01, -1.0];

/// The number of compared samples, of a batch of any size.
const JUDGED: usize = 8;

/// A chain with PyTorch's initial parameters, on an input of this shape.
fn initialised(chain: &Chain, shape: &[usize]) -> Result<Case, convfuse::ParametersError> {
    Ok(Case {
        name: "accuracy/initialised".to_owned(),
        graph: chain.clone().into(),
        parameters: Parameters::init(chain, 1)?.values().to_vec(),
        x: data::fill(5, IxDyn(shape)),
        inputs: Vec::new(),
    })
}

/// The benchmark problem on a GPU, a small one on other backends.
fn scaled_input(backend: Backend, preset: &Preset, factor: f32) -> Outcome {
    let shape = match backend {
        Backend::Gpu => preset.full,
        _ => preset.small,
    };
    let mut case = initialised(&preset.chain, shape)?.scaled(factor);
    // The initial values would be ones and zeros.
    let random = [
        ("group_norm.weight", 2, 1.5),
        ("group_norm.bias", 3, 0.5),
        ("scale", 4, 1.5),
    ];
    for (parameter, values) in preset.chain.parameters().iter().zip(&mut case.parameters) {
        let known = random.iter().find(|(name, ..)| *name == parameter.name);
        if let Some(&(_, seed, bound)) = known {
            *values = data::signed(seed, IxDyn(&parameter.shape)) * bound;
        }
    }
    check(backend, &case).map(drop)
}

/// A norm's moments are those of the stored values, so equal values have a deviation of 0 regardless of
/// their rounding. Runs the `mma.sync` tile, depthwise convolutions, and the warp-specialized tile, which
/// takes too long to emulate.
fn constant_in_16_bits(backend: Backend) -> Outcome {
    let groups = |groups| ConvSpec::default().groups(groups);
    let rows = [
        (3, 16, groups(1), 9, true),
        (6, 6, groups(6), 12, true),
        (64, 128, groups(1), 34, backend == Backend::Gpu),
    ];
    let stream = backend.stream()?;
    for (channels, filters, attributes, extent, is_affordable) in rows {
        let conv = ConvLayer::new("conv", filters, [3, 3]).attributes(attributes);
        let layers = [
            Layer::from(conv),
            Layer::from(Layer::group_norm("norm", filters)),
        ];
        let chain = Chain::new(channels, layers)?;
        let mut case = Case::of_graph("accuracy/constant", chain, &[2, channels, extent, extent]);
        case.x.fill(0.7);
        for (dtype, precision) in [(DType::F16, Precision::F16), (DType::BF16, Precision::BF16)] {
            if !is_affordable {
                continue;
            }
            let case = convfuse_cli::rounded(&case, dtype);
            let x = Tensor::from_f32_array(&stream, &case.x, dtype)?;
            let y = chains::model(&stream, &case, dtype)?.forward(&x)?;
            let norm = norm_of_constants(&case, dtype)?;
            let checked = norm.expected(&precision)?.check(y.to_f32_array()?.view());
            checked.map_err(|error| format!("{channels} channels in {dtype}: {error}"))?;
        }
    }
    Ok(())
}

/// The norm of a case with a convolution and a norm, on the stored output of the convolution for a constant
/// input.
fn norm_of_constants(case: &Case, dtype: DType) -> Result<Case, Failed> {
    let [conv, norm] = case.graph.layers() else {
        return Err("a convolution and a norm".into());
    };
    let (of_conv, of_norm) = case.parameters.split_at(2);
    let conv = Case {
        graph: Chain::new(case.x.shape()[1], [conv.clone()])?.into(),
        parameters: of_conv.to_vec(),
        ..case.clone()
    };
    let constants = conv.reference()?;
    Ok(Case {
        graph: Chain::new(constants.shape()[1], [norm.clone()])?.into(),
        parameters: of_norm.to_vec(),
        x: constants.mapv(|value| dtype.round(value as f32)),
        ..case.clone()
    })
}

/// Every second channel is 10^4 times smaller, with weights that compensate.
fn channels_apart(backend: Backend) -> Outcome {
    let layers = [
        Layer::from(Layer::conv2d("conv", 16, 3)),
        Layer::from(Layer::group_norm("norm", 4)),
    ];
    let mut case = Case::of_graph("accuracy/apart", Chain::new(8, layers)?, &[2, 8, 11, 13]);
    case.x.mapv_inplace(|v| 2.0 * v - 1.0);
    for channel in (1..8).step_by(2) {
        case.x
            .index_axis_mut(Axis(1), channel)
            .mapv_inplace(|v| v * 1e-4);
        let mut weights = case.parameters[0].index_axis_mut(Axis(1), channel);
        weights.mapv_inplace(|v| v * 1e4);
    }
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &case.x)?;
    let y = chains::model(&stream, &case, DType::F32)?.forward(&x)?;
    case.expected(&Precision::F32)?
        .check(y.to_array()?.view())?;
    Ok(())
}

/// Sums of 4,608 terms.
fn long_sums_of_85(backend: Backend) -> Outcome {
    let problem = KernelBench85 {
        in_channels: 512,
        ..KernelBench85::default()
    };
    check_long_sums(backend, &initialised(&problem.chain()?, &[2, 512, 18, 18])?)
}

/// Sums of 6,912 terms.
fn long_sums_of_79(backend: Backend) -> Outcome {
    let problem = KernelBench79 {
        in_channels: 256,
        out_channels: 64,
        ..KernelBench79::default()
    };
    let shape = [1, 256, 6, 14, 14];
    check_long_sums(backend, &initialised(&problem.chain()?, &shape)?)
}

/// Checks all strategies, and the largest error of the default one. Despite the truncation of tensor cores,
/// it must not exceed the error of single operators with FMA chains. Sums of thousands of terms on tensor
/// cores alone have at least three times that error.
fn check_long_sums(backend: Backend, case: &Case) -> Outcome {
    let Checked { model, x, expected } = check(backend, case)?;
    let largest = |options: &Options| -> convfuse::Result<f64> {
        let y = model.forward_with(&x, options)?.to_array::<f32>()?;
        let errors = y.iter().zip(&expected);
        let errors = errors.map(|(&got, want)| (f64::from(got) - want).abs());
        // Not f64::max, which drops NaN; `check` has found no NaN.
        Ok(errors.fold(0.0, |a, b| if a > b { a } else { b }))
    };
    let single = Strategy::all(&case.graph);
    let chain = largest(&single[0].options())?;
    let fused = largest(&Options::default())?;
    if fused <= 1.5 * chain {
        return Ok(());
    }
    Err(format!("fused is off by {fused:e}, the operators one by one by {chain:e}").into())
}

/// A case on a device, with the expected values.
struct Checked {
    model: Model,
    x: Tensor,
    expected: ArrayD<f64>,
}

/// Checks the first samples under every strategy, with the default's accurate products. The other samples
/// must not change their bits.
fn check(backend: Backend, case: &Case) -> Result<Checked, Failed> {
    let stream = backend.stream()?;
    let model = chains::model(&stream, case, DType::F32)?;
    let x = Tensor::from_array(&stream, &case.x)?;
    let first = |len: usize| Slice::from(..len.min(JUDGED));
    let judged = case.x.slice_axis(Axis(0), first(case.x.len_of(Axis(0))));
    let judged = Case {
        x: judged.to_owned(),
        ..case.clone()
    };
    let expected = judged.expected(&Precision::F32)?;
    let mut strategies = Strategy::all(&case.graph);
    if backend == Backend::Cpu {
        // The CPU backend executes all strategies alike.
        strategies.truncate(1);
    }
    let mut complaints = Vec::new();
    for strategy in strategies {
        let y = model
            .forward_with(&x, &strategy.options())?
            .to_array::<f32>()?;
        let y = y.slice_axis(Axis(0), first(y.len_of(Axis(0))));
        let verdict = expected.check(y);
        complaints.extend(
            verdict
                .err()
                .map(|complaint| format!("{strategy}: {complaint}")),
        );
    }
    all_right(&complaints)?;
    let expected = expected.values().ok_or("all values are known")?;
    Ok(Checked { model, x, expected })
}
