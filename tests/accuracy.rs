//! Accuracy of the models where inputs are not of the size that initialisations expect.

use convfuse::lab::{case_79, case_85};
use convfuse::models::{
    Conv2dGroupNormScaleMaxPoolClamp as Model85,
    Conv3dMultiplyInstanceNormClampMultiplyMax as Model79, Options, Pipeline, Strategy,
};
use convfuse::spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79,
};
use convfuse::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights as Weights85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxWeights as Weights79,
};
use convfuse::{Tensor, data};
use libtest_mimic::Trial;
use ndarray::{ArrayD, ArrayViewD};

use crate::backend::{Backend, Outcome};
use crate::suite::all_right;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in Backend::DEVICES {
        for factor in FACTORS {
            let name = format!("are_accurate_on_inputs_times_{factor}");
            trials.push(backend.trial("models::85", &name, move |backend| of_85(backend, factor)));
            trials.push(backend.trial("models::79", &name, move |backend| of_79(backend, factor)));
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

/// The benchmark problem on a GPU, a small one elsewhere.
fn shape<const D: usize>(backend: Backend, full: [usize; D], small: [usize; D]) -> [usize; D] {
    match backend {
        Backend::Gpu => full,
        _ => small,
    }
}

fn of_85(backend: Backend, factor: f32) -> Outcome {
    let spec = Spec85::kernelbench();
    let mut weights = Weights85::init(&spec, 1);
    let k = spec.out_channels;
    weights.group_norm_weight = Some(data::signed(2, k) * 1.5);
    weights.group_norm_bias = Some(data::signed(3, k) * 0.5);
    weights.scale = data::signed(4, k) * 1.5;
    let shape = shape(backend, Spec85::KERNELBENCH_INPUT, [1, 8, 10, 14]);
    let x = data::fill(5, shape) * factor;
    let model = Model85::new(&backend.stream()?, &spec, &weights)?;
    let on_device = Tensor::from_array(model.stream(), &x)?;
    let case = case_85(&spec, &weights, x);
    check(backend, &model, &on_device, &case.reference()?)
}

fn of_79(backend: Backend, factor: f32) -> Outcome {
    let spec = Spec79::kernelbench();
    let weights = Weights79::init(&spec, 1);
    let shape = shape(backend, Spec79::KERNELBENCH_INPUT, [2, 3, 5, 6, 7]);
    let x = data::fill(5, shape) * factor;
    let model = Model79::new(&backend.stream()?, &spec, &weights)?;
    let on_device = Tensor::from_array(model.stream(), &x)?;
    let case = case_79(&spec, &weights, x);
    check(backend, &model, &on_device, &case.reference()?)
}

/// 4,608 terms.
fn long_sums_of_85(backend: Backend) -> Outcome {
    let spec = Spec85 {
        in_channels: 512,
        out_channels: 64,
        ..Spec85::kernelbench()
    };
    let weights = Weights85::init(&spec, 1);
    let x = data::fill(5, [2, 512, 18, 18]);
    let model = Model85::new(&backend.stream()?, &spec, &weights)?;
    let on_device = Tensor::from_array(model.stream(), &x)?;
    let case = case_85(&spec, &weights, x);
    check_long_sums(backend, &model, &on_device, &case.reference()?)
}

/// 6,912 terms.
fn long_sums_of_79(backend: Backend) -> Outcome {
    let spec = Spec79 {
        in_channels: 256,
        out_channels: 64,
        ..Spec79::kernelbench()
    };
    let weights = Weights79::init(&spec, 1);
    let x = data::fill(5, [1, 256, 6, 14, 14]);
    let model = Model79::new(&backend.stream()?, &spec, &weights)?;
    let on_device = Tensor::from_array(model.stream(), &x)?;
    let case = case_79(&spec, &weights, x);
    check_long_sums(backend, &model, &on_device, &case.reference()?)
}

/// All strategies, as below, and the default one's largest error: tensor cores that truncate must not make it
/// larger than that of the FMA chain of the operators one by one. Sums of thousands of terms that they add up alone
/// have three times that error and more.
fn check_long_sums<M: Pipeline>(
    backend: Backend,
    model: &M,
    x: &Tensor,
    expected: &ArrayD<f64>,
) -> Outcome {
    check(backend, model, x, expected)?;
    let largest = |options: &Options<M::Strategy>| -> convfuse::Result<f64> {
        let y = model.forward_with(x, options)?.to_array::<f32>()?;
        let errors = y.iter().zip(expected);
        let errors = errors.map(|(&got, want)| (f64::from(got) - want).abs());
        // Not f64::max, which drops NaN; `check` has seen that there is none.
        Ok(errors.fold(0.0, |a, b| if a > b { a } else { b }))
    };
    let chain = largest(&Options::strategy(M::Strategy::ALL[0]))?;
    let fused = largest(&Options::default())?;
    if fused <= 1.5 * chain {
        return Ok(());
    }
    Err(format!("fused is off by {fused:e}, the operators one by one by {chain:e}").into())
}

/// Every strategy, with the default's accurate products.
fn check<M: Pipeline>(backend: Backend, model: &M, x: &Tensor, expected: &ArrayD<f64>) -> Outcome {
    let mut strategies = M::Strategy::ALL;
    if backend == Backend::Cpu {
        // It has one way.
        strategies = &strategies[..1];
    }
    let mut complaints = Vec::new();
    for &strategy in strategies {
        let y = model.forward_with(x, &Options::strategy(strategy))?;
        let complaint = all_close(y.to_array::<f32>()?.view(), expected);
        complaints.extend(complaint.map(|complaint| format!("{strategy}: {complaint}")));
    }
    all_right(&complaints)
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
