//! Kernels are explained for devices that are not there, on any device and without the emulator.

#[cfg(feature = "emulator")]
use convfuse::Tensor;
use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::graph::{Chain, Layer, Partition};
use convfuse::model::Explanation;
use convfuse::{DType, Device, DeviceProperties, Error, Model, Options};

fn chains() -> Vec<(Chain, Vec<usize>)> {
    let stem = Chain::new(
        3,
        (
            Layer::conv2d("conv", 64, 7)
                .stride(2)
                .padding(3)
                .bias(false),
            Layer::batch_norm("norm"),
            Layer::relu(),
            Layer::max_pool2d(3).stride(2).padding(1),
        ),
    );
    vec![
        (
            KernelBench85::default().chain().unwrap(),
            vec![16, 8, 128, 128],
        ),
        (
            KernelBench79::default().chain().unwrap(),
            vec![16, 3, 16, 32, 32],
        ),
        (stem.unwrap(), vec![4, 3, 64, 64]),
    ]
}

#[test]
fn a_choice_follows_from_problem_and_properties() {
    for (chain, input) in chains() {
        for &(name, properties) in DeviceProperties::NAMED {
            for dtype in [DType::F32, DType::F16] {
                let options = Options::default();
                let explanation = Explanation::of(&chain, dtype, &input, &options, &properties);
                let explanation = explanation.unwrap();
                assert!(!explanation.launches.is_empty(), "{name}");
                assert_eq!(explanation.properties, properties);
                let stream = Device::cpu().stream().unwrap();
                let parameters = convfuse::Parameters::init(&chain, 1).unwrap();
                let model = Model::with_dtype(&stream, &chain, &parameters, dtype).unwrap();
                let of_model = model.explain_for(&input, &options, &properties).unwrap();
                assert_eq!(of_model, explanation);
                // The CPU itself runs no kernels.
                let own = model.explain(&input, &options);
                assert!(matches!(own, Err(Error::NoKernels { .. })));
            }
        }
    }
}

/// Kernels that were asked for more layers than the region has are listed as such, before its own.
#[test]
fn kernels_are_listed_by_the_layers_that_they_were_asked_for() {
    let (stem, input) = chains().remove(2);
    let h100 = DeviceProperties::named("h100").unwrap();
    let explanation = Explanation::of(&stem, DType::F32, &input, &Options::default(), &h100);
    let text = explanation.unwrap().to_string();
    let whole = text.find("\n  for conv2d batch_norm relu max_pool2d:\n");
    let region = text.find("\n  for conv2d batch_norm relu:\n");
    assert!(whole.is_some() && whole < region, "{text}");
}

/// Parameters in other forms, which a device would compute, are only counted.
#[test]
fn prepared_parameters_need_no_device() {
    let (chain, input) = chains().remove(0);
    let h100 = DeviceProperties::named("h100").unwrap();
    let folded = "conv2d @direct | group_norm scale @folded | max_pool2d clamp";
    let partition = Partition::parse(&chain, folded).unwrap();
    let options = Options::default().partition(partition);
    let explanation = Explanation::of(&chain, DType::F32, &input, &options, &h100).unwrap();
    let rows: Vec<_> = explanation
        .regions
        .iter()
        .map(|region| region.kernels)
        .collect();
    assert_eq!(rows, ["direct", "folded", "tensor"]);
}

/// What is explained is what is launched.
#[cfg(feature = "emulator")]
#[test]
fn an_explanation_is_that_of_a_plan() {
    let stream = Device::emulator().stream().unwrap();
    for (chain, mut input) in chains() {
        input[0] = 1;
        let model = Model::init(&stream, &chain, 1).unwrap();
        let options = Options::default();
        let plan = model.plan(&stream, &input, &options).unwrap();
        let properties = stream.device().properties();
        let explanation = Explanation::of(&chain, DType::F32, &input, &options, &properties);
        let explanation = explanation.unwrap();
        assert_eq!(explanation, plan.explain().unwrap());
        assert_eq!(explanation.workspace_bytes, plan.workspace_bytes());
    }
}

/// Norms of 16-bit tensors keep f32 parameters, which cost launches of their own where a scale is folded into
/// them.
#[cfg(feature = "emulator")]
#[test]
fn parameters_are_explained_as_they_are_stored() {
    let stream = Device::emulator().stream().unwrap();
    let (chain, mut input) = chains().remove(0);
    input[0] = 1;
    let folded = "conv2d @direct | group_norm scale @folded | max_pool2d clamp";
    let partition = Partition::parse(&chain, folded).unwrap();
    let options = Options::default().partition(partition);
    let [stored, rounded] = [DType::F32, DType::F16].map(|dtype| {
        let table = chain.parameters().iter();
        let tensors = table.map(|one| Tensor::zeros(&stream, &one.shape, dtype).unwrap());
        let model = Model::from_tensors(&stream, &chain, tensors.collect(), DType::F16).unwrap();
        let explanation = model.explain(&input, &options).unwrap();
        let plan = model.plan(&stream, &input, &options).unwrap();
        assert_eq!(explanation.workspace_bytes, plan.workspace_bytes());
        let launches = explanation.launches.iter();
        launches.map(|launch| launch.kernel).collect::<Vec<_>>()
    });
    // Weight and bias are rounded, and the scale is folded in each run.
    assert_eq!(stored.len(), rounded.len() + 3, "{stored:?} {rounded:?}");
}
