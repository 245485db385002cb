//! Arithmetic, and models with residuals.

use convfuse::graph::{BroadcastParameter, Chain, Layer};
use convfuse::{
    DType, Error, Inputs, InputsError, Model, Options, PinnedArray, Replicas, Stream, Tensor, data,
    lab, ops,
};
use libtest_mimic::{Failed, Trial};
use ndarray::{ArrayD, IxDyn, array};
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains;
use crate::layouts::{self, WAYS, Way};
use crate::suite::{bits, match_reference, says};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Backend::trials(
        &Backend::DEVICES,
        "add",
        &[
            ("gives_zeros_their_signs", zeros),
            ("reads_a_tensor_twice", twice),
        ],
    );
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "residuals",
        &[
            ("are_refused_by_name", refusals),
            ("are_refused_by_name_in_plans", plan_refusals),
            ("give_the_same_bits_in_every_way", every_way),
            ("may_lie_in_any_way", lying),
            ("may_belong_to_another_stream", other_stream),
        ],
    ));
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "arithmetic",
        &[("is_part_of_a_convolutions_epilogue", epilogues)],
    ));
    trials.push(Backend::Gpu.trial("residuals", "are_read_by_graphs", captured));
    for backend in Backend::DEVICES {
        trials.push(backend.trial("residuals", "match_reference_in_chains_of_files", files));
    }
    trials
}

fn zeros(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &array![0.0f32, 0.0, -0.0, -0.0, 1.0])?;
    let residual = Tensor::from_array(&stream, &array![0.0f32, -0.0, 0.0, -0.0, -1.0])?;
    let y = ops::add(&x, &residual)?.to_array::<f32>()?;
    let signs: Vec<bool> = y.iter().map(|value| value.is_sign_negative()).collect();
    assert_eq!(signs, [false, false, false, true, false], "{y}");
    Ok(())
}

/// A batch norm and operations with parameters before the first function run in the convolution's launch. An
/// operation after a function is a launch of its own.
fn epilogues(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let of_all = || BroadcastParameter::new("of_all").shape(&[1]);
    let of_each = |name: &str| BroadcastParameter::new(name).shape(&[1, 16, 1, 1]);
    for groups in [1, 16] {
        let conv = || Layer::from(Layer::conv2d("conv", 16, 3).groups(groups));
        let norm = || Layer::from(Layer::batch_norm("norm"));
        // The store of a depthwise convolution cannot apply gain and shift after a function.
        let behind_a_function = if groups == 1 { 1 } else { 2 };
        let shape = [2, 16, 17, 19];
        let table = chains::table! {
            "bias": [conv(), Layer::add(of_each("bias"))], shape => 1;
            "quotient": [conv(), Layer::div(of_all()), Layer::relu()], shape => 1;
            "difference": [conv(), Layer::scale("scale"), Layer::sub(of_all())], shape => 1;
            "all": [conv(), norm(), Layer::mul(of_each("gain")), Layer::add(of_each("shift")),
                Layer::mul(of_all()), Layer::leaky_relu(0.1)], shape => 1;
            "behind": [conv(), Layer::relu(), Layer::add(of_each("bias"))],
                shape => behind_a_function;
        };
        for (case, regions) in chains::cases("arithmetic/epilogue", table) {
            if backend != Backend::Cpu {
                let model = chains::model(&stream, &case, DType::F32)?;
                let facts = model.explain(case.x.shape(), &Options::default())?;
                assert_eq!(facts.regions.len(), regions, "{facts}");
            }
            match_reference(backend, &[case], &[DType::F32, DType::F16, DType::BF16])?;
        }
    }
    Ok(())
}

fn twice(backend: Backend) -> Outcome {
    let x = data::signed(1, IxDyn(&[2, 3, 700]));
    let tensor = Tensor::from_array(&backend.stream()?, &x)?;
    assert_eq!(ops::add(&tensor, &tensor)?.to_array::<f32>()?, x * 2.0);
    Ok(())
}

const SHAPE: [usize; 4] = [3, 4, 11, 13];

/// A convolution with a shortcut, and a second residual of another shape.
fn chain() -> convfuse::Result<Chain> {
    Ok(Chain::new(
        4,
        (
            Layer::conv2d("conv", 6, 3),
            Layer::group_norm("norm", 3),
            Layer::add("shortcut"),
            Layer::relu(),
            Layer::max_pool2d(2),
            Layer::add("late"),
        ),
    )?)
}

/// The first input and the further ones, in the chain's order.
fn values() -> [ArrayD<f32>; 3] {
    [(1, SHAPE), (2, [3, 6, 9, 11]), (3, [3, 6, 4, 5])]
        .map(|(seed, shape)| data::signed(seed, IxDyn(&shape)))
}

fn named<T>([x, shortcut, late]: [T; 3]) -> Inputs<T> {
    // The order of further inputs is arbitrary.
    Inputs::new(x).with("late", late).with("shortcut", shortcut)
}

fn tensors(stream: &Stream, dtype: DType) -> convfuse::Result<[Tensor; 3]> {
    let [x, shortcut, late] = values();
    let upload = |values| Tensor::from_f32_array(stream, values, dtype);
    Ok([upload(&x)?, upload(&shortcut)?, upload(&late)?])
}

fn model(stream: &Stream, dtype: DType) -> convfuse::Result<Model> {
    let chain = chain()?;
    let parameters = convfuse::Parameters::init(&chain, 5)?;
    Model::with_dtype(stream, &chain, &parameters, dtype)
}

fn refusals(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let model = model(&stream, DType::F32)?;
    let [x, shortcut, late] = &tensors(&stream, DType::F32)?;
    let missing = model.forward(x);
    assert!(matches!(
        missing,
        Err(Error::Inputs(InputsError::Missing { .. }))
    ));
    says(
        missing,
        "model: input shortcut is missing, which a layer of the model takes; given besides the first: none",
    )?;
    let both = || named([x, shortcut, late]);
    says(
        model.forward(both().with("other", late)),
        "model: there is no input other; the model's inputs besides the first: shortcut, late",
    )?;
    says(
        model.forward(both().with("late", late)),
        "model: input late is given twice, must be once",
    )?;
    says(
        model.forward(named([x, late, late])),
        "input shortcut: model: input has shape [3, 6, 4, 5], must be [3, 6, 9, 11]",
    )?;
    let half = &tensors(&stream, DType::F16)?[2];
    says(
        model.forward(named([x, shortcut, half])),
        "input late: model: input is f16, must be f32",
    )?;
    // A chain without further inputs refuses any.
    let plain = Chain::new(4, [Layer::relu()])?;
    let plain = Model::init(&stream, &plain, 1)?;
    says(
        plain.forward(Inputs::new(x).with("shortcut", shortcut)),
        "model: there is no input shortcut; the model's inputs besides the first: none",
    )?;
    let elsewhere = match backend {
        Backend::Cpu => convfuse::Device::emulator(),
        _ => convfuse::Device::cpu(),
    };
    let far = &tensors(&elsewhere.stream()?, DType::F32)?[2];
    let refused = model.forward(named([x, shortcut, far]));
    let Err(Error::NamedInput { name, error }) = refused else {
        return Err("a residual of another device was accepted".into());
    };
    assert!(matches!(*error, Error::DeviceMismatch { .. }) && name == "late");
    Ok(())
}

fn plan_refusals(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let model = model(&stream, DType::F32)?;
    let [x, shortcut, late] = &tensors(&stream, DType::F32)?;
    let mut plan = model.plan(&stream, &SHAPE, &Options::default())?;
    let shapes: Vec<_> = (plan.inputs().iter())
        .map(|input| (&*input.name, input.shape.clone()))
        .collect();
    let wanted = [
        ("shortcut", shortcut.shape().to_vec()),
        ("late", late.shape().to_vec()),
    ];
    assert_eq!(shapes, wanted);
    let mut y = plan.output()?;
    says(
        plan.execute(x, &mut y),
        "plan: input shortcut is missing, which a layer of the model takes; given besides the first: none",
    )?;
    says(
        plan.execute(named([x, late, late]), &mut y),
        "input shortcut: plan: input has shape [3, 6, 4, 5], must be [3, 6, 9, 11]",
    )?;
    if !backend.device()?.is_cpu() {
        let odd = late.slice(1..3)?;
        let shape = [2, 4, 11, 13];
        let mut plan = model.plan(&stream, &shape, &Options::default())?;
        let mut y = plan.output()?;
        let (x, shortcut) = (x.slice(0..2)?, shortcut.slice(0..2)?);
        // The second sample begins at byte 480, so it is dense and aligned.
        plan.execute(named([&x, &shortcut, &odd]), &mut y)?;
        let turned = lab::as_strided(late, 0, &[2, 6, 4, 5], &[20, 40, 5, 1]);
        let turned = turned.ok_or("the memory is too short")?;
        let refused = plan.execute(named([&x, &shortcut, &turned]), &mut y);
        let Err(Error::NamedInput { error, .. }) = refused else {
            return Err("a residual in another order was accepted".into());
        };
        assert!(matches!(*error, Error::LayoutMismatch { .. }));
    }
    Ok(())
}

/// Runs on tensors, plans, arrays, pinned arrays and several devices.
fn every_way(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let stream = device.stream()?;
    let model = model(&stream, DType::F32)?;
    let arrays = values();
    let on_device = tensors(&stream, DType::F32)?;
    let wanted = model
        .forward(named(on_device.each_ref()))?
        .to_array::<f32>()?;
    let options = Options::default();
    let mut plan = model.plan(&stream, &SHAPE, &options)?;
    let mut y = plan.output()?;
    plan.execute(named(on_device.each_ref()), &mut y)?;
    assert_eq!(y.to_array::<f32>()?, wanted);
    assert_eq!(model.forward_array(named(arrays.each_ref()))?, wanted);
    let mut into = ArrayD::zeros(wanted.shape());
    model.forward_array_into(named(arrays.each_ref()), &mut into, &options)?;
    assert_eq!(into, wanted);
    let pin = |values: &ArrayD<f32>| -> Result<PinnedArray<f32>, Failed> {
        let mut pinned = PinnedArray::zeros(&device, values.shape())?;
        pinned.view_mut()?.assign(values);
        Ok(pinned)
    };
    let [x, shortcut, late] = &arrays;
    let pinned = [pin(x)?, pin(shortcut)?, pin(late)?];
    let mut pinned_y = PinnedArray::zeros(&device, wanted.shape())?;
    model.forward_pinned(named(pinned.each_ref()), &mut pinned_y, &options)?;
    assert_eq!(pinned_y.view()?, wanted);

    let replicas = Replicas::new(&model, &[device.clone(), device.clone()])?;
    assert_eq!(replicas.forward_array(named(arrays.each_ref()))?, wanted);
    replicas.forward_pinned(named(pinned.each_ref()), &mut pinned_y, &options)?;
    assert_eq!(pinned_y.view()?, wanted);
    let whole = on_device.map(|tensor| vec![tensor.clone(), tensor]);
    let slices = whole.each_ref().map(|tensors| &tensors[..]);
    let results = replicas.forward(named(slices), &options)?;
    assert_eq!(results.len(), 2);
    for y in results {
        assert_eq!(y.to_array::<f32>()?, wanted);
    }
    let few = [slices[0], slices[1], &slices[2][..1]];
    says(
        replicas.forward(named(few), &options),
        "input late: replicas: inputs has shape [1], must be [2]",
    )?;
    let comparison = model.compare_with_cpu(
        named(slices.map(|tensors| &tensors[0])),
        &options,
        &convfuse::model::Tolerance {
            atol: 1e-4,
            rtol: 1e-4,
            equal_nan: false,
        },
    )?;
    assert!(comparison.is_close(), "{comparison}");
    Ok(())
}

/// Channels-last inputs, and inputs at an odd address: one more copy each, and the same bits.
fn lying(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let model = model(&stream, dtype)?;
        let [x, shortcut, late] = &tensors(&stream, dtype)?;
        let wanted = bits(&model.forward(named([x, shortcut, late]))?.to_f32_array()?);
        let odd = Way {
            before: 1,
            ..WAYS[0]
        };
        let channels_last = &layouts::lying(&stream, &values()[1], dtype, &odd)?;
        let inputs = || named([x, channels_last, late]);
        assert_eq!(bits(&model.forward(inputs())?.to_f32_array()?), wanted);
        let mut plan = model.plan_for(&stream, inputs(), &Options::default())?;
        let mut y = plan.output()?;
        plan.execute(inputs(), &mut y)?;
        assert_eq!(bits(&y.to_f32_array()?), wanted);
        if !backend.device()?.is_cpu() {
            let dense = model.explain(&SHAPE, &Options::default())?;
            let launches = plan.explain()?.launches;
            assert_eq!(launches.len(), dense.launches.len() + 1);
            let mut kernels = launches.iter().map(|launch| launch.kernel);
            assert!(kernels.any(|kernel| kernel.starts_with("copy_strided")));
        }
        let sum = ops::add(shortcut, channels_last)?;
        let wanted = ops::add(shortcut, shortcut)?;
        assert_eq!(bits(&sum.to_f32_array()?), bits(&wanted.to_f32_array()?));
    }
    Ok(())
}

fn other_stream(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let (home, other) = (device.stream()?, device.stream()?);
    let model = model(&home, DType::F32)?;
    let [x, shortcut, late] = &tensors(&home, DType::F32)?;
    let wanted = model.forward(named([x, shortcut, late]))?;
    let far = &tensors(&other, DType::F32)?[1];
    let got = model.forward(named([x, far, late]))?;
    assert_eq!(got.to_array::<f32>()?, wanted.to_array::<f32>()?);
    assert_eq!(
        ops::add(shortcut, far)?.to_array::<f32>()?,
        ops::add(shortcut, shortcut)?.to_array::<f32>()?
    );
    Ok(())
}

fn captured(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let model = model(&stream, DType::F32)?;
    let options = Options::default();
    let arrays = values();
    let wanted = model.forward_array(named(arrays.each_ref()))?;
    let zeros = |values: &ArrayD<f32>| Tensor::zeros(&stream, values.shape(), DType::F32);
    let [x, shortcut, late] = &arrays;
    let plan = || model.plan(&stream, &SHAPE, &options);
    let inputs = || -> convfuse::Result<_> { Ok([zeros(x)?, zeros(shortcut)?, zeros(late)?]) };
    let mut captured = plan()?.capture(named(inputs()?))?;
    captured.write(x)?;
    captured.write_input("shortcut", shortcut)?;
    captured.write_input("late", late)?;
    captured.replay()?;
    assert_eq!(captured.output().to_array::<f32>()?, wanted);
    says(
        captured.write_input("other", late),
        "captured plan: there is no input other; the model's inputs besides the first: shortcut, late",
    )?;
    says(
        captured.write_input("late", shortcut),
        "input late: captured plan: input has shape [3, 6, 9, 11], must be [3, 6, 4, 5]",
    )?;
    let [x, _, _] = inputs()?;
    let refused = plan()?.capture(x);
    says(
        refused.map(drop),
        "captured plan: input shortcut is missing, which a layer of the model takes; given besides the first: none",
    )
}

/// The chains in `examples/chains` with residuals or averages, on small inputs, under every strategy.
fn files(backend: Backend) -> Outcome {
    let files = [
        (
            "residual_block",
            include_str!("../examples/chains/residual_block.json"),
        ),
        (
            "classifier_head",
            include_str!("../examples/chains/classifier_head.json"),
        ),
    ];
    for (name, file) in files {
        let chain: Chain = serde_json::from_str(file)?;
        let input = [2, chain.in_channels(), 5, 6];
        let case = Case::of_graph(&format!("files/{name}"), chain, &input);
        match_reference(backend, &[case], &[DType::F32, DType::F16])?;
    }
    Ok(())
}
