//! Accuracy of the models where inputs are not of the size that initialisations expect.

use convfuse::chain::Chain;
use convfuse::chain::presets::{KernelBench79, KernelBench85};
use convfuse::model::Strategy;
use convfuse::{DType, Model, Options, Parameters, Tensor, data};
use libtest_mimic::{Failed, Trial};
use ndarray::{ArrayD, ArrayViewD, IxDyn};
use oracle::Case;

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
    let name = "are_accurate_on_sums_of_thousands_of_terms";
    trials.push(Backend::Gpu.trial("models::85", name, long_sums_of_85));
    trials.push(Backend::Gpu.trial("models::79", name, long_sums_of_79));
    trials
}

/// What inputs, uniform in [0, 1), are multiplied by.
const FACTORS: [f32; 3] = [3.0, 0.01, -1.0];

/// Both tolerances of `torch.allclose`, by which PyTorch's users judge f32.
const TOLERANCE: f64 = 1e-4;

/// A chain as it is initialised, on an input of this shape.
fn initialised(chain: &Chain, shape: &[usize]) -> Result<Case, convfuse::ParametersError> {
    Ok(Case {
        name: "accuracy/initialised".to_owned(),
        chain: chain.clone(),
        parameters: Parameters::init(chain, 1)?.values().to_vec(),
        x: data::fill(5, IxDyn(shape)),
        inputs: Vec::new(),
    })
}

/// The benchmark problem on a GPU, a small one elsewhere.
fn scaled_input(backend: Backend, preset: &Preset, factor: f32) -> Outcome {
    let shape = match backend {
        Backend::Gpu => preset.full,
        _ => preset.small,
    };
    let mut case = initialised(&preset.chain, shape)?.scaled(factor);
    // Initialised, these would be ones and zeros.
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

/// 4,608 terms.
fn long_sums_of_85(backend: Backend) -> Outcome {
    let problem = KernelBench85 {
        in_channels: 512,
        ..KernelBench85::default()
    };
    check_long_sums(backend, &initialised(&problem.chain()?, &[2, 512, 18, 18])?)
}

/// 6,912 terms.
fn long_sums_of_79(backend: Backend) -> Outcome {
    let problem = KernelBench79 {
        in_channels: 256,
        out_channels: 64,
        ..KernelBench79::default()
    };
    let shape = [1, 256, 6, 14, 14];
    check_long_sums(backend, &initialised(&problem.chain()?, &shape)?)
}

/// All strategies, as below, and the default one's largest error: tensor cores that truncate must not make it
/// larger than that of the FMA chain of the operators one by one. Sums of thousands of terms that they add up alone
/// have three times that error and more.
fn check_long_sums(backend: Backend, case: &Case) -> Outcome {
    let Checked { model, x, expected } = check(backend, case)?;
    let largest = |options: &Options| -> convfuse::Result<f64> {
        let y = model.forward_with(&x, options)?.to_array::<f32>()?;
        let errors = y.iter().zip(&expected);
        let errors = errors.map(|(&got, want)| (f64::from(got) - want).abs());
        // Not f64::max, which drops NaN; `check` has seen that there is none.
        Ok(errors.fold(0.0, |a, b| if a > b { a } else { b }))
    };
    let single = Strategy::all(&case.chain);
    let chain = largest(&single[0].options())?;
    let fused = largest(&Options::default())?;
    if fused <= 1.5 * chain {
        return Ok(());
    }
    Err(format!("fused is off by {fused:e}, the operators one by one by {chain:e}").into())
}

/// A case on a device, with the reference's values.
struct Checked {
    model: Model,
    x: Tensor,
    expected: ArrayD<f64>,
}

/// Every strategy, with the default's accurate products.
fn check(backend: Backend, case: &Case) -> Result<Checked, Failed> {
    let stream = backend.stream()?;
    let model = chains::model(&stream, case, DType::F32)?;
    let x = Tensor::from_array(&stream, &case.x)?;
    let expected = case.reference()?;
    let mut strategies = Strategy::all(&case.chain);
    if backend == Backend::Cpu {
        // It has one way.
        strategies.truncate(1);
    }
    let mut complaints = Vec::new();
    for strategy in strategies {
        let y = model.forward_with(&x, &strategy.options())?;
        let complaint = all_close(y.to_array::<f32>()?.view(), &expected);
        complaints.extend(complaint.map(|complaint| format!("{strategy}: {complaint}")));
    }
    all_right(&complaints)?;
    Ok(Checked { model, x, expected })
}

/// Says how many elements are off, and which is the first, if any is.
fn all_close(got: ArrayViewD<'_, f32>, expected: &ArrayD<f64>) -> Option<String> {
    assert_eq!(got.shape(), expected.shape());
    // NaN is off.
    let close =
        |got: f32, want: f64| (f64::from(got) - want).abs() <= TOLERANCE + TOLERANCE * want.abs();
    let pairs = got.iter().copied().zip(expected.iter().copied());
    let mut off = pairs
        .enumerate()
        .filter(|&(_, (got, want))| !close(got, want));
    let (index, (got, want)) = off.next()?;
    let more = off.count();
    Some(format!(
        "element {index} is {got:e}, want {want:e}; so are {more} more"
    ))
}
