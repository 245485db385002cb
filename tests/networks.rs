//! Networks with skips that are concatenated, with upsampling and with several outputs, and those of
//! `examples/networks`.

use convfuse::graph::{Graph, Layer};
use convfuse::spec::{Layout, UpsampleMode, UpsampleSpec};
use convfuse::{DType, DeviceProperties, Options, Stream, Tensor, lab};
use libtest_mimic::{Failed, Trial};
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::suite::{DTYPES, bits, in_every_type};
use crate::{chains, layouts};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = in_every_type("networks", cases);
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "networks",
        &[
            ("give_every_output", outputs),
            ("give_the_same_bits_of_any_layout", lying),
        ],
    ));
    trials.push(Backend::Emulator.trial("networks", "stay_channels_last", channels_last));
    trials.push(Backend::Gpu.trial("networks", "are_captured_with_all_outputs", captured));
    trials
}

fn conv(name: &str, channels: usize) -> Layer {
    Layer::conv2d(name, channels, 3).padding(1).into()
}

/// A U-Net of so many channels: skips joined to what is upsampled, nearest and bilinear, shuffled channels of
/// blocks of pixels, and masks of two depths.
fn unet(width: usize) -> Graph {
    let nearest = Layer::upsample(UpsampleSpec::scale_factor(2.0));
    let bilinear = UpsampleSpec::scale_factor(2.0).mode(UpsampleMode::Bilinear);
    let graph = Graph::builder("x", width)
        .layer("down1", "x", conv("down1", width))
        .layer("skip1", "down1", Layer::relu())
        .layer("pool1", "skip1", Layer::max_pool2d(2))
        .layer("down2", "pool1", conv("down2", 2 * width))
        .layer("skip2", "down2", Layer::relu())
        .layer("average", "skip2", Layer::adaptive_avg_pool2d())
        .layer("weights", "average", Layer::sigmoid())
        .layer("excited", "skip2", Layer::gate("weights"))
        .layer("pool2", "excited", Layer::max_pool2d(2))
        .layer("bottom", "pool2", conv("bottom", 2 * width))
        .layer("large2", "bottom", nearest)
        .layer("both2", "large2", Layer::cat(["skip2"], 1))
        .layer("up2", "both2", conv("up2", width))
        .layer("active2", "up2", Layer::silu())
        .layer(
            "large1",
            "active2",
            Layer::upsample(bilinear.align_corners(true)),
        )
        .layer("both1", "skip1", Layer::cat(["large1"], 1))
        .layer("blocks", "both1", Layer::pixel_unshuffle(2))
        .layer("mixed", "blocks", Layer::channel_shuffle(4))
        .layer("pixels", "mixed", Layer::pixel_shuffle(2))
        .layer("up1", "pixels", conv("up1", width))
        .layer("class", "up1", Layer::narrow(1, 0, 2))
        .layer("mask", "class", Layer::softmax(&[1]));
    let further = ["up1", "active2", "skip2"].into_iter();
    let graph = further.fold(graph, |graph, name| graph.output(name));
    graph.build("mask").expect("a graph")
}

const INPUT: [usize; 4] = [2, 8, 4, 8];

fn case() -> Case {
    Case::of_graph("networks/unet", unet(8), &INPUT).shifted(-0.5)
}

/// A file of `examples/networks`.
macro_rules! file {
    ($name:literal, $input:expr) => {{
        let text = include_str!(concat!("../examples/networks/", $name, ".json"));
        let graph: Graph = serde_json::from_str(text).expect("a network");
        Case::of_graph(concat!("networks/", $name), graph, &$input).shifted(-0.5)
    }};
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case(),
        file!("resnet", [1, 3, 9, 12]),
        file!("pyramid", [1, 3, 16, 16]),
        file!("vae_decoder", [1, 4, 2, 3]),
    ]
}

/// All outputs are what the reference gives, also of a plan, whose intermediate values share memory.
fn outputs(backend: Backend) -> Outcome {
    outputs_of(backend, &case())?;
    outputs_of(backend, &file!("pyramid", [1, 3, 16, 16]))
}

fn outputs_of(backend: Backend, case: &Case) -> Outcome {
    let stream = backend.stream()?;
    let (_, precision) = DTYPES[0];
    let model = chains::model(&stream, case, DType::F32)?;
    let x = Tensor::from_array(&stream, &case.x)?;
    let all = model.forward_all(&x, &Options::default())?;
    assert!(bits(&model.forward(&x)?.to_array::<f32>()?) == bits(&all[0].to_array::<f32>()?));
    let mut plan = model.plan(&stream, case.x.shape(), &Options::default())?;
    let mut planned = plan.outputs()?;
    plan.execute_all(&x, &mut planned)?;
    let graph = model.graph();
    assert_eq!(all.len(), graph.outputs().len());
    let arrays = all.iter().map(Tensor::to_f32_array);
    let arrays = arrays.collect::<convfuse::Result<Vec<_>>>()?;
    case.expected(&precision)?.check_all(&arrays)?;
    for ((&layer, y), planned) in graph.outputs().iter().zip(&arrays).zip(&planned) {
        let name = graph.name_of(layer);
        assert!(
            bits(&planned.to_array::<f32>()?) == bits(y),
            "{name} of a plan"
        );
    }
    let refused = plan.execute(&x, &mut planned[0]).unwrap_err();
    let words = format!("plan: there are 1 outputs, must be {}", all.len());
    assert_eq!(refused.to_string(), words);
    // Arrays are those of the first output.
    let y = model.forward_array(&case.x)?;
    assert!(bits(&y) == bits(&all[0].to_array::<f32>()?));
    Ok(())
}

/// The input as a dense tensor, and with its channels last.
fn both(stream: &Stream, case: &Case, dtype: DType) -> Result<[Tensor; 2], Failed> {
    Ok([
        Tensor::from_f32_array(stream, &case.x, dtype)?,
        layouts::lying(stream, &case.x, dtype, &layouts::WAYS[0])?,
    ])
}

fn lying(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let case = case();
    for dtype in [DType::F32, DType::F16] {
        let model = chains::model(&stream, &case, dtype)?;
        let [dense, last] = both(&stream, &case, dtype)?;
        let options = Options::default();
        let [dense, last] = [
            model.forward_all(&dense, &options)?,
            model.forward_all(&last, &options)?,
        ];
        for (dense, last) in dense.iter().zip(&last) {
            assert!(
                bits(&dense.to_f32_array()?) == bits(&last.to_f32_array()?),
                "{dtype}"
            );
        }
    }
    Ok(())
}

/// On a GPU, values that are joined, upsampled, gated and shuffled stay channels last, as convolutions give
/// them.
fn channels_last(_: Backend) -> Outcome {
    let properties = DeviceProperties::named("h200").expect("it has a name");
    let (input, axes) = ([2, 64, 128, 128], layouts::channels_last(4));
    let options = Options::default();
    let graph = unet(64);
    let explanation = lab::explain_axes(&graph, DType::F16, &input, &axes, &options, &properties)?;
    let shuffles = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"];
    for layers in ["cat", "upsample", "narrow", "gate"]
        .into_iter()
        .chain(shuffles)
    {
        let regions = explanation.regions.iter();
        let mut found = regions.filter(|region| region.layers == layers).peekable();
        assert!(found.peek().is_some(), "{layers} is a region");
        for region in found {
            let layouts = [region.reads, region.writes];
            assert_eq!(layouts, [Layout::Nhwc; 2], "{}", region.value);
        }
    }
    Ok(())
}

fn captured(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let case = case();
    let model = chains::model(&stream, &case, DType::F32)?;
    let x = Tensor::from_array(&stream, &case.x)?;
    let all = model.forward_all(&x, &Options::default())?;
    let plan = model.plan(&stream, &INPUT, &Options::default())?;
    let mut captured = plan.capture(x)?;
    captured.replay()?;
    for (y, wanted) in captured.outputs().iter().zip(&all) {
        assert!(bits(&y.to_array::<f32>()?) == bits(&wanted.to_array::<f32>()?));
    }
    Ok(())
}
