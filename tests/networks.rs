//! Networks with concatenated skips, upsampling and several outputs, and the networks of
//! `examples/networks`.

use convfuse::graph::{GateLayer, Graph, GraphBuilder, Layer};
use convfuse::spec::{Layout, PaddingMode, UpsampleMode, UpsampleSpec};
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

/// A U-Net with `width` channels: skips concatenated to upsampled values (nearest and bilinear), separate
/// padding, pixel shuffles, masks at two depths, and a part of the channels that is read twice.
fn unet(width: usize) -> Graph {
    let around = Layer::pad([1, 1, 0, 2]).padding_mode(PaddingMode::Replicate);
    let nearest = Layer::upsample(UpsampleSpec::scale_factor(2.0));
    let bilinear = UpsampleSpec::scale_factor(2.0).mode(UpsampleMode::Bilinear);
    let graph = Graph::builder("x", width)
        .layer("down1", "x", conv("down1", width))
        .layer("skip1", "down1", Layer::relu())
        .layer("pool1", "skip1", Layer::max_pool2d(2))
        .layer("edges", "pool1", around)
        .layer("down2", "edges", Layer::conv2d("down2", 2 * width, 3))
        .layer("skip2", "down2", Layer::relu())
        .layer("average", "skip2", Layer::adaptive_avg_pool2d(1))
        .layer("weights", "average", Layer::sigmoid())
        .layer("excited", "skip2", Layer::gate("weights"))
        .layer("pool2", "excited", Layer::max_pool2d(2))
        .layer("bottom", "pool2", conv("bottom", 2 * width))
        .layer("large2", "bottom", nearest)
        .layer("map", "large2", Layer::conv2d("map", 1, 1))
        .layer("places", "map", Layer::sigmoid())
        .layer("attended", "large2", GateLayer::new("places").dim(1))
        .layer("both2", "attended", Layer::cat(["skip2"], 1))
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
        .layer("bounded", "class", Layer::clamp(-0.25, 0.5))
        .layer("sum", "bounded", Layer::add("class"))
        .layer("mask", "sum", Layer::softmax(&[1]));
    let further = ["up1", "active2", "skip2"].into_iter();
    let graph = further.fold(graph, |graph, name| graph.output(name));
    graph.build("mask").expect("a graph")
}

/// Two ConvNeXt blocks with `width` channels and a downsampling between them: norms and linear maps over the
/// channels of each position.
fn conv_next(width: usize) -> Graph {
    let depthwise = |name: &str, channels| {
        let conv = Layer::conv2d(name, channels, 7).padding(3);
        conv.groups(channels)
    };
    let norm = |name: &str, channels| Layer::layer_norm(name, &[channels]).eps(1e-6).dim(1);
    let linear = |name: &str, from, to| Layer::linear(name, from, to).dim(1);
    let graph = Graph::builder("x", 3)
        .layer("stem", "x", Layer::conv2d("stem", width, 2).stride(2))
        .layer("a", "stem", norm("norm", width));
    let block = |graph: GraphBuilder, [x, y]: [&str; 2], channels| {
        let name = |part: &str| format!("{y}.{part}");
        graph
            .layer(name("conv"), x, depthwise(&name("conv"), channels))
            .layer(name("norm"), name("conv"), norm(&name("norm"), channels))
            .layer(
                name("wide"),
                name("norm"),
                linear(&name("wide"), channels, 4 * channels),
            )
            .layer(name("gelu"), name("wide"), Layer::gelu(Default::default()))
            .layer(
                name("narrow"),
                name("gelu"),
                linear(&name("narrow"), 4 * channels, channels),
            )
            .layer(name("scale"), name("narrow"), Layer::scale(name("scale")))
            .layer(y, name("scale"), Layer::add(x))
    };
    let graph = block(graph, ["a", "b"], width)
        .layer("c", "b", norm("down.norm", width))
        .layer("d", "c", Layer::conv2d("down", 2 * width, 2).stride(2));
    block(graph, ["d", "e"], 2 * width)
        .layer("average", "e", Layer::adaptive_avg_pool2d(1))
        .layer("head", "average", norm("head", 2 * width))
        .layer("flat", "head", Layer::flatten())
        .layer("y", "flat", Layer::linear("classes", 2 * width, 5))
        .build("y")
        .expect("a graph")
}

/// Feature images, and channel weights from a convolution along the channels.
fn decoder(width: usize) -> Graph {
    Graph::builder("x", 6)
        .layer("seed", "x", Layer::linear("seed", 6, width * 6))
        .layer("images", "seed", Layer::reshape(&[width as isize, 2, -1]))
        .layer(
            "up",
            "images",
            Layer::conv_transpose2d("up", width, 2).stride(2),
        )
        .layer("active", "up", Layer::relu())
        .layer("average", "active", Layer::adaptive_avg_pool2d(1))
        .layer("line", "average", Layer::reshape(&[1, -1]))
        .layer("along", "line", Layer::conv1d("along", 1, 3).padding(1))
        .layer("logits", "along", Layer::sigmoid())
        .layer("weights", "logits", Layer::reshape(&[width as isize, 1, 1]))
        .layer("gated", "active", Layer::gate("weights"))
        .layer(
            "around",
            "gated",
            Layer::pad([0, 1, 2, 1]).padding_mode(PaddingMode::Reflect),
        )
        .layer("y", "around", Layer::conv2d("y", 3, 3))
        .build("y")
        .expect("a graph")
}

const INPUT: [usize; 4] = [2, 8, 4, 8];

fn case() -> Case {
    Case::of_graph("networks/unet", unet(8), &INPUT).shifted(-0.5)
}

/// A case of a file in `examples/networks`.
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
        Case::of_graph("networks/conv_next", conv_next(16), &[2, 3, 18, 20]).shifted(-0.5),
        Case::of_graph("networks/decoder", decoder(16), &[3, 6]).shifted(-0.5),
        file!("resnet", [1, 3, 9, 12]),
        file!("pyramid", [1, 3, 16, 16]),
        file!("vae_decoder", [1, 4, 2, 3]),
    ]
}

/// All outputs match the reference. In a plan, intermediate values share memory.
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
    // `forward_array` returns the first output.
    let y = model.forward_array(&case.x)?;
    assert!(bits(&y) == bits(&all[0].to_array::<f32>()?));
    Ok(())
}

/// The input as a dense and as a channels-last tensor.
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

/// On a GPU, convolutions give channels-last values, which stay so through concatenation, upsampling,
/// padding, gates and shuffles.
fn channels_last(_: Backend) -> Outcome {
    let properties = DeviceProperties::named("h200").expect("it has a name");
    let (input, axes) = ([2, 64, 128, 128], layouts::channels_last(4));
    let options = Options::default();
    let graph = unet(64);
    let explanation = lab::explain_axes(&graph, DType::F16, &input, &axes, &options, &properties)?;
    let shuffles = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"];
    for layers in ["cat", "upsample", "narrow", "gate", "pad"]
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
