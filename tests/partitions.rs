//! Partitions: those with kernels match the reference, the others are refused with reasons.

use convfuse::graph::{Chain, Layer, Partition};
use convfuse::model::Precision as MathMode;
use convfuse::{DType, Error, Model, Options, Tensor};
use libtest_mimic::Trial;
use oracle::{Case, Precision};

use crate::backend::{Backend, Outcome};
use crate::chains::{self, Preset, preset_79, preset_85, presets};
use crate::suite::{all_right, says};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in Backend::KERNELS_OF_ALL {
        let mut add = |name, test: fn(Backend) -> Outcome| {
            trials.push(backend.trial("partitions", name, test));
        };
        add("match_reference_or_have_no_kernels", every_partition);
        add("match_reference_with_named_kernels", named_kernels);
        add("are_refused_with_reasons", refusals);
    }
    for backend in Backend::ARCHITECTURES {
        let name = "make_nan_of_what_shares_a_value_beyond_f16_with_a_norm";
        trials.push(backend.trial("partitions", name, overflow));
    }
    let name = "change_nothing";
    trials.push(Backend::Cpu.trial("partitions", name, one_way));
    trials
}

/// All partitions of a chain into runs, as text.
fn cuts(chain: &Chain) -> Vec<String> {
    let layers = chain.layers();
    let text = |cuts: usize| {
        let parts = layers.iter().enumerate().map(|(index, layer)| {
            let is_cut = index > 0 && cuts >> (index - 1) & 1 == 1;
            let separator = match (index, is_cut) {
                (0, _) => "",
                (_, true) => " | ",
                (_, false) => " ",
            };
            format!("{separator}{}", layer.operator())
        });
        parts.collect()
    };
    (0..1 << (layers.len() - 1)).map(text).collect()
}

/// A small case of a preset.
fn case(preset: &Preset, dtype: DType) -> Case {
    let name = format!("{}/partitions", preset.name);
    let case = Case::of_graph(&name, preset.chain.clone(), preset.small);
    convfuse_cli::rounded(&case, dtype)
}

const DTYPES: [(DType, Precision); 2] =
    [(DType::F32, Precision::F32), (DType::F16, Precision::F16)];

fn every_partition(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let mut complaints = Vec::new();
    for (preset, with_kernels) in [(preset_85(), 16), (preset_79(), 14)] {
        for (dtype, precision) in DTYPES {
            let case = case(&preset, dtype);
            let expected = case.expected(&precision)?;
            let model = chains::model(&stream, &case, dtype)?;
            let x = Tensor::from_f32_array(&stream, &case.x, dtype)?;
            let mut compared = 0;
            for text in cuts(&preset.chain) {
                let partition = Partition::parse(&preset.chain, &text)?;
                let options = Options::default().partition(partition);
                match model.forward_with(&x, &options) {
                    Ok(y) => {
                        compared += 1;
                        let verdict = expected.check(y.to_f32_array()?.view());
                        let complaint = verdict.err();
                        complaints.extend(complaint.map(|c| format!("{text} {dtype}: {c}")));
                    }
                    Err(Error::NoKernels { asked: None, .. }) => {}
                    Err(error) => complaints.push(format!("{text} {dtype}: {error}")),
                }
            }
            assert_eq!(compared, with_kernels, "{}", preset.name);
        }
    }
    all_right(&complaints)
}

/// A list whose exponentials do not pay in the launches of a transposed convolution.
fn transposed_with_exponentials() -> convfuse::Result<Preset> {
    let up = Layer::conv_transpose2d("up", 64, 3).stride(2).into();
    let layers = [up, Layer::silu(), Layer::mish(), Layer::tanh()];
    Ok(Preset {
        name: "transposed_with_exponentials",
        number: 0,
        chain: Chain::new(64, layers)?,
        full: &[1, 64, 9, 8],
        small: &[1, 64, 9, 8],
    })
}

fn named_kernels(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let mut complaints = Vec::new();
    for (preset, texts) in [
        (
            preset_85(),
            &[
                "conv2d @direct | group_norm scale @folded | max_pool2d clamp @tensor",
                "conv2d @direct | group_norm @tensor | scale max_pool2d clamp @tensor",
                "conv2d @direct | group_norm scale max_pool2d clamp @tensor",
                "conv2d group_norm scale max_pool2d clamp @implicit-gemm",
            ][..],
        ),
        (
            preset_79(),
            &[
                "conv3d @direct | scale instance_norm clamp scale max",
                "conv3d @direct | scale @tensor | instance_norm | clamp scale max @tensor",
                "conv3d scale instance_norm clamp scale max @implicit-gemm",
            ],
        ),
        (
            transposed_with_exponentials()?,
            &["conv_transpose2d silu mish tanh @transposed"],
        ),
    ] {
        for (dtype, precision) in DTYPES {
            let case = case(&preset, dtype);
            let expected = case.expected(&precision)?;
            let model = chains::model(&stream, &case, dtype)?;
            let x = Tensor::from_f32_array(&stream, &case.x, dtype)?;
            for text in texts {
                let partition = Partition::parse(&preset.chain, text)?;
                let options = Options::default().partition(partition);
                let runs = model.explain(preset.small, &options)?.regions;
                for (run, part) in runs.iter().zip(text.split(" | ")) {
                    if let Some((layers, kernels)) = part.split_once(" @") {
                        assert_eq!((run.layers.as_str(), run.kernels), (layers, kernels));
                    }
                }
                let y = model.forward_with(&x, &options)?.to_f32_array()?;
                let complaint = expected.check(y.view()).err();
                complaints.extend(complaint.map(|c| format!("{text} {dtype}: {c}")));
            }
        }
    }
    all_right(&complaints)
}

fn refusals(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let preset = preset_85();
    let model = Model::init(&stream, &preset.chain, 1)?;
    let x = Tensor::zeros(&stream, preset.small, DType::F32)?;
    let partition = |text: &str| Partition::parse(&preset.chain, text);
    for (text, wanted) in [
        (
            "conv2d group_norm scale max_pool2d clamp @direct",
            "conv2d group_norm scale max_pool2d clamp: no kernels called direct: direct: the layers are not \
             a convolution alone",
        ),
        (
            "conv2d @no-such | group_norm scale max_pool2d clamp",
            "conv2d: no kernels called no-such: known are one-launch-2d, one-launch-3d, conv-mean, depthwise, \
             gemm, direct-nhwc, implicit-gemm, direct, transposed, tensor, folded",
        ),
        (
            "conv2d | group_norm scale @direct | max_pool2d clamp",
            "group_norm scale: no kernels called direct: direct: the layers are not a convolution alone",
        ),
        (
            "conv2d group_norm scale max_pool2d clamp @depthwise",
            "conv2d group_norm scale max_pool2d clamp: no kernels called depthwise: \
             depthwise: channels of a group is 8, expected 1",
        ),
    ] {
        let options = Options::default().partition(partition(text)?);
        says(model.forward_with(&x, &options), wanted)?;
        says(model.plan(&stream, preset.small, &options), wanted)?;
        says(model.explain(preset.small, &options), wanted)?;
    }
    let other = Partition::whole(&preset_79().chain);
    says(
        model.forward_with(&x, &Options::default().partition(other)),
        "partition: covers 6 layers, the model has 5",
    )?;
    // The same number of layers, but different ones. Without the check, a row would be used for the wrong
    // layers.
    let texts = ["no layers", "conv2d | group_norm", "conv2d || group_norm"];
    assert!(texts.iter().all(|text| partition(text).is_err()));
    Ok(())
}

/// The CPU backend runs no kernels, so it has a single strategy.
fn one_way(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for preset in presets() {
        let case = case(&preset, DType::F32);
        let model = chains::model(&stream, &case, DType::F32)?;
        let x = Tensor::from_array(&stream, &case.x)?;
        let wanted = model.forward(&x)?.to_array::<f32>()?;
        let single = Options::default().partition(Partition::single(&preset.chain));
        for options in [single, Options::default().precision(MathMode::Fast)] {
            let y = model.forward_with(&x, &options)?.to_array::<f32>()?;
            assert_eq!(y, wanted);
        }
    }
    Ok(())
}

/// A norm reads values of the tensors' type. If one overflows to infinity, all values that share its
/// statistics are NaN, in every partition, and no others.
fn overflow(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let conv = |groups| Layer::from(Layer::conv2d("conv", 16, 3).padding(1).groups(groups));
    let transposed = || Layer::from(Layer::conv_transpose2d("conv", 16, 3).padding(1));
    let (of_groups, scale) = (Layer::group_norm("norm", 4), Layer::scale("scale"));
    let instance_norm = || Layer::from(Layer::instance_norm("norm"));
    let of_batch = Layer::batch_norm("norm").track_running_stats(false);
    let of_channels = Layer::layer_norm("norm", &[16]).dim(1);
    // Whether a value shares its statistics with the value at `AT`.
    type Shares = fn([usize; 4]) -> bool;
    const AT: [usize; 4] = [1, 5, 4, 3];
    let cases: [(Layer, Option<Layer>, Layer, Shares); 7] = [
        (conv(1), None, instance_norm(), |i| i[..2] == AT[..2]),
        (conv(16), None, instance_norm(), |i| i[..2] == AT[..2]),
        (transposed(), None, instance_norm(), |i| i[..2] == AT[..2]),
        (conv(1), Some(scale.into()), instance_norm(), |i| {
            i[..2] == AT[..2]
        }),
        (conv(1), None, of_groups.into(), |i| {
            i[0] == AT[0] && i[1] / 4 == AT[1] / 4
        }),
        (conv(1), None, of_batch.into(), |i| i[1] == AT[1]),
        (conv(1), None, of_channels.into(), |i| {
            i[0] == AT[0] && i[2..] == AT[2..]
        }),
    ];
    for (conv, scale, norm, shares) in cases {
        let layers = [conv].into_iter().chain(scale).chain([norm, Layer::relu()]);
        let chain = Chain::new(16, layers.collect::<Vec<_>>())?;
        let mut case = Case::of_graph("partitions/overflow", chain.clone(), &[2, 16, 9, 8]);
        let [n, channel, y, x] = AT;
        // The tap that multiplies the value at the output's place.
        let filters = &mut case.parameters[0];
        let input = if filters.shape()[1] == 1 { 0 } else { channel };
        filters[[channel, input, 1, 1]] = 2.0;
        for parameter in &mut case.parameters[1..] {
            parameter.fill(1.0);
        }
        for (value, dtype, overflows) in [
            (32_000.0, DType::F16, false),
            (33_008.0, DType::F16, true),
            (33_024.0, DType::BF16, false),
        ] {
            case.x[[n, channel, y, x]] = value;
            let case = convfuse_cli::rounded(&case, dtype);
            let model = chains::model(&stream, &case, dtype)?;
            let x = Tensor::from_f32_array(&stream, &case.x, dtype)?;
            let mut compared = 0;
            for text in cuts(&chain) {
                let partition = Partition::parse(&chain, &text)?;
                let y = match model.forward_with(&x, &Options::default().partition(partition)) {
                    Err(Error::NoKernels { asked: None, .. }) => continue,
                    y => y?.to_f32_array()?,
                };
                compared += 1;
                for (index, y) in y.indexed_iter() {
                    let index = [0, 1, 2, 3].map(|axis| index[axis]);
                    let is_nan = overflows && shares(index);
                    assert_eq!(
                        y.is_nan(),
                        is_nan,
                        "{text}, {value} in {dtype}, at {index:?}: {y}"
                    );
                }
            }
            assert!(compared > 1, "{chain:?}");
        }
    }
    Ok(())
}
