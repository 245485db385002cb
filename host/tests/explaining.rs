//! Explanations for devices that are not present, on any device and without the emulator.

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
                // The CPU device itself runs no kernels.
                let own = model.explain(&input, &options);
                assert!(matches!(own, Err(Error::NoKernels { .. })));
            }
        }
    }
}

/// Names as drivers report them, and as people write them.
#[test]
fn devices_are_named_as_people_and_drivers_name_them() {
    for (names, known) in [
        (&["H100", "NVIDIA H100 80GB HBM3", "h100-sxm5"][..], "h100"),
        (&["A100", "NVIDIA A100-SXM4-80GB", "a100 80gb"], "a100"),
        (
            &["RTX 4090", "NVIDIA GeForce RTX 4090", "rtx-4090"],
            "rtx4090",
        ),
        (&["NVIDIA H200"], "h200"),
    ] {
        let properties = DeviceProperties::named(known).unwrap();
        assert!(DeviceProperties::NAMED.contains(&(known, properties)));
        for name in names {
            assert_eq!(DeviceProperties::named(name).unwrap(), properties, "{name}");
        }
    }
    // These devices have another memory, or fewer multiprocessors.
    for other in ["H100 PCIe", "A100-SXM4-40GB", "L40", "NVIDIA", ""] {
        assert_eq!(
            DeviceProperties::named(other).unwrap_err().to_string(),
            format!("device is {other}, must be one of a10, a100, l40s, rtx4090, h100, h200, b200")
        );
    }
}

#[test]
fn an_explanation_begins_with_the_device_that_it_is_for() {
    let (chain, input) = chains().remove(0);
    let second_line = |properties: &DeviceProperties| {
        let options = Options::default();
        let text = Explanation::of(&chain, DType::F32, &input, &options, properties).unwrap();
        text.to_string().lines().nth(1).unwrap().to_owned()
    };
    let mut h200 = DeviceProperties::named("h200").unwrap();
    let told = ": sm_90, 132 multiprocessors, 232448 bytes of shared memory a block";
    assert_eq!(
        second_line(&h200),
        format!("device: h200, by its data sheet{told}")
    );
    h200.clock_hz = None;
    assert_eq!(second_line(&h200), format!("device: a GPU{told}"));
    #[cfg(feature = "emulator")]
    assert!(
        second_line(&Device::emulator().properties())
            .starts_with("device: the emulator, not a GPU: sm_")
    );
}

/// Rows that were tried on more layers than the region has are listed with those layers, before the region's
/// own rows.
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

/// Prepared forms of parameters, which only a device would compute, are just counted.
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

/// The explained launches are the launches of a plan.
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

/// Norms of 16-bit tensors keep f32 parameters, which need separate launches if a scale is folded into them.
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
    // Weight and bias are rounded, and the scale is folded, in each run.
    assert_eq!(stored.len(), rounded.len() + 3, "{stored:?} {rounded:?}");
}
