//! Models of graphs whose values have several users: residual blocks whose shortcut is the block's input,
//! another convolution of it, or an earlier value.

mod operands;

use convfuse::graph::{BroadcastParameter, Chain, Graph, Layer, Partition};
use convfuse::model::Precision;
use convfuse::spec::{Conv2dSpec, Layout};
use convfuse::{DType, Inputs, Model, Options, Parameters, Stream, Tensor};
use libtest_mimic::{Failed, Trial};
use ndarray::{ArrayD, Axis};
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::layouts::are_close;
use crate::suite::{bits, count, in_every_type, says};
use crate::{chains, layouts};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = in_every_type("layer_graphs", cases);
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "layer_graphs",
        &[
            ("give_the_bits_of_their_chains", as_chains),
            ("give_the_same_bits_in_every_way", every_way),
            ("read_an_input_that_lies_in_any_way", lying),
        ],
    ));
    trials.extend(Backend::trials(
        &Backend::KERNELS,
        "layer_graphs",
        &[
            ("copy_an_input_once", copies),
            ("are_explained", explained),
            ("flatten_without_a_launch", flattens),
        ],
    ));
    trials.push(Backend::Gpu.trial("layer_graphs", "are_captured", captured));
    trials
}

fn conv(name: &str, channels: usize, kernel_size: usize, stride: usize) -> Layer {
    Layer::conv2d(name, channels, [kernel_size; 2])
        .attributes(
            Conv2dSpec::default()
                .stride([stride; 2])
                .padding([kernel_size / 2; 2]),
        )
        .into()
}

fn depthwise() -> Layer {
    Layer::conv2d("conv", 16, 3).padding(1).groups(16).into()
}

/// `relu(norm(conv(relu(norm(conv(x))))) + x)`, as in ResNets.
fn basic() -> Graph {
    let graph = Graph::builder("x", 16)
        .layer("first", "x", conv("conv1", 16, 3, 1))
        .layer("normalised", "first", Layer::batch_norm("bn1"))
        .layer("active", "normalised", Layer::relu())
        .layer("second", "active", conv("conv2", 16, 3, 1))
        .layer("scaled", "second", Layer::batch_norm("bn2"))
        .layer("sum", "scaled", Layer::add("x"))
        .layer("y", "sum", Layer::relu());
    graph.build("y").expect("a graph")
}

/// The same with a stride: the shortcut is a convolution, and is the first operand.
fn downsampling() -> Graph {
    let graph = Graph::builder("x", 8)
        .layer("first", "x", conv("conv1", 16, 3, 2))
        .layer("normalised", "first", Layer::group_norm("norm1", 4))
        .layer("active", "normalised", Layer::silu())
        .layer("second", "active", conv("conv2", 16, 3, 1))
        .layer("halved", "x", conv("down", 16, 1, 2))
        .layer("shortcut", "halved", Layer::group_norm("norm2", 8))
        .layer("sum", "shortcut", Layer::add("second"))
        .layer("y", "sum", Layer::relu());
    graph.build("y").expect("a graph")
}

/// `((y + b) + y) * y + y` of a transposed convolution's output, whose rows are multiples of a vector.
fn polynomial() -> Graph {
    let up = Layer::conv_transpose2d("up", 8, 3).stride(2).padding(1);
    let graph = Graph::builder("x", 8)
        .layer("a", "x", up.output_padding(1))
        .layer("b", "a", Layer::add(BroadcastParameter::new("bias")))
        .layer("c", "b", Layer::add("a"))
        .layer("d", "a", Layer::mul("c"))
        .layer("y", "d", Layer::add("a"));
    graph.build("y").expect("a graph")
}

/// A sum multiplied by a function of it, after a convolution or a transposed one.
fn gated(conv: impl Into<Layer>) -> Graph {
    let graph = Graph::builder("x", 16)
        .input("r")
        .layer("a", "x", conv)
        .layer("b", "a", Layer::add("r"))
        .layer("c", "b", Layer::hardswish())
        .layer("y", "b", Layer::mul("c"));
    graph.build("y").expect("a graph")
}

/// Values with three users, a value added to itself, and a further input.
fn dense() -> Graph {
    let graph = Graph::builder("x", 8)
        .input("r")
        .layer("a", "x", conv("a", 8, 3, 1))
        .layer("b", "a", Layer::gelu(Default::default()))
        .layer("c", "b", conv("c", 8, 3, 1))
        .layer("d", "a", Layer::add("c"))
        .layer("e", "d", Layer::instance_norm("norm"))
        .layer("f", "e", Layer::add("a"))
        .layer("g", "f", Layer::add("f"))
        .layer("h", "g", Layer::add("r"))
        .layer("y", "h", Layer::sigmoid());
    graph.build("y").expect("a graph")
}

/// A classifier as in ResNets: a stem, a block, and a head.
fn classifier() -> Graph {
    let graph = Graph::builder("x", 3)
        .layer("stem", "x", conv("conv1", 16, 7, 2))
        .layer("stem.bn", "stem", Layer::batch_norm("bn1"))
        .layer("stem.relu", "stem.bn", Layer::relu())
        .layer(
            "pooled",
            "stem.relu",
            Layer::max_pool2d(3).stride(2).padding(1),
        )
        .layer("first", "pooled", conv("block.conv1", 32, 3, 2))
        .layer("first.bn", "first", Layer::batch_norm("block.bn1"))
        .layer("first.relu", "first.bn", Layer::relu())
        .layer("second", "first.relu", conv("block.conv2", 32, 3, 1))
        .layer("second.bn", "second", Layer::batch_norm("block.bn2"))
        .layer("down", "pooled", conv("block.down", 32, 1, 2))
        .layer("down.bn", "down", Layer::batch_norm("block.down_bn"))
        .layer("sum", "second.bn", Layer::add("down.bn"))
        .layer("block", "sum", Layer::relu())
        .layer("averaged", "block", Layer::adaptive_avg_pool2d(1))
        .layer("flat", "averaged", Layer::flatten())
        .layer("y", "flat", Layer::linear("fc", 32, 10));
    graph.build("y").expect("a graph")
}

/// Flattened values: of a convolution, of a value with other users, and of the input.
fn flattened() -> Graph {
    let features = 8 * 5 * 6;
    let graph = Graph::builder("x", 8)
        .layer("a", "x", conv("a", 8, 3, 1))
        .layer("b", "a", Layer::relu())
        .layer("flat.b", "b", Layer::flatten())
        .layer("hidden", "flat.b", Layer::linear("fc1", features, 24))
        .layer("active", "hidden", Layer::gelu(Default::default()))
        .layer("c", "x", conv("c", 8, 1, 1))
        .layer("d", "c", Layer::add("x"))
        .layer("flat.c", "c", Layer::flatten())
        .layer("flat.d", "d", Layer::flatten())
        .layer("flat.x", "x", Layer::flatten())
        .layer("e", "flat.c", Layer::add("flat.d"))
        .layer("f", "e", Layer::add("flat.x"))
        .layer("other", "f", Layer::linear("fc2", features, 24).bias(false))
        .layer("sum", "active", Layer::add("other"))
        .layer("z", "sum", Layer::linear("fc3", 24, 5))
        .layer("y", "z", Layer::softmax(&[1]));
    graph.build("y").expect("a graph")
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |name: &str, graph: Graph, input: &[usize]| {
        Case::of_graph(&format!("layer_graphs/{name}"), graph, input).shifted(-0.5)
    };
    vec![
        case("basic", basic(), &[2, 16, 9, 11]),
        case("downsampling", downsampling(), &[2, 8, 12, 9]),
        case("dense", dense(), &[3, 8, 7, 10]),
        case("dense_without_batch", dense_without_norms(), &[8, 7, 10]),
        case("empty_batch", basic(), &[0, 16, 5, 5]),
        case("special", dense(), &[2, 8, 7, 10]).special(),
        case("classifier", classifier(), &[3, 3, 38, 33]),
        case("flattened", flattened(), &[2, 8, 5, 6]),
        case("flattened_empty_batch", flattened(), &[0, 8, 5, 6]),
        case("polynomial", polynomial(), &[2, 8, 5, 8]),
        case("polynomial_of_other_rows", polynomial(), &[2, 8, 5, 7]).special(),
        case("gated", gated(conv("a", 24, 3, 1)), &[2, 16, 9, 10]),
        case(
            "gated_and_shuffled",
            gated(Layer::conv_transpose2d("up", 20, 2).stride(2)),
            &[2, 16, 6, 12],
        ),
        case("depthwise_and_gated", gated(depthwise()), &[2, 16, 9, 8]),
        case("kept", operands::kept(), &[2, 8, 7, 10]),
        case(
            "kept_on_large_planes",
            operands::kept_on_planes(),
            &[2, 1, 34, 47],
        ),
        case("operands", operands::operands(), &[2, 8, 6, 7]),
    ]
}

/// A graph that accepts an input without a batch.
fn dense_without_norms() -> Graph {
    let graph = Graph::builder("x", 8)
        .input("r")
        .layer("a", "x", conv("a", 8, 3, 1))
        .layer("b", "a", Layer::relu())
        .layer("c", "b", conv("c", 8, 3, 1))
        .layer("d", "c", Layer::add("a"))
        .layer("e", "d", Layer::add("x"))
        .layer("y", "e", Layer::add("r"));
    graph.build("y").expect("a graph")
}

/// The model of a case, its first input and its further inputs.
fn loaded(case: &Case, stream: &Stream) -> convfuse::Result<(Model, Tensor, Vec<Tensor>)> {
    let model = chains::model(stream, case, DType::F32)?;
    let further = case.inputs.iter().map(|x| Tensor::from_array(stream, x));
    let further = further.collect::<convfuse::Result<_>>()?;
    Ok((model, Tensor::from_array(stream, &case.x)?, further))
}

fn named<'a>(model: &Model, x: &'a Tensor, further: &'a [Tensor]) -> Inputs<&'a Tensor> {
    convfuse_cli::named(model.graph(), x, further)
}

/// Each path as a separate chain. The shortcut is a further input of the second chain.
fn as_chains(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let case = &cases()[1];
    let (model, x, _) = loaded(case, &stream)?;
    let whole = model.forward(&x)?;
    let parameters = model.parameters()?;
    let part = |layers: &[usize]| -> convfuse::Result<Model> {
        let layers = layers
            .iter()
            .map(|&layer| case.graph.layers()[layer].clone());
        let chain = Chain::new(8, layers)?;
        let names = chain.parameters().iter().map(|of| of.name.clone());
        let values = names.map(|name| {
            let value = parameters.get(&name).expect("the graph has it").to_owned();
            (name, value)
        });
        let values: Vec<_> = values.collect();
        Model::new(&stream, &chain, &Parameters::new(&chain, values)?)
    };
    let paths = case.graph.paths();
    assert_eq!(paths, [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    let second = part(&paths[0])?.forward(&x)?;
    let y = part(&paths[1])?.forward(Inputs::new(&x).with("second", &second))?;
    assert!(bits(&y.to_array::<f32>()?) == bits(&whole.to_array::<f32>()?));
    Ok(())
}

/// The first input and the further inputs by name.
fn arrays<'a>(case: &Case, all: &'a [ArrayD<f32>]) -> Inputs<&'a ArrayD<f32>> {
    let further = case.graph.inputs().iter().zip(&all[1..]);
    further.fold(Inputs::new(&all[0]), |inputs, (name, value)| {
        inputs.with(name, value)
    })
}

fn every_way(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for case in cases() {
        let (model, x, further) = loaded(&case, &stream)?;
        let whole = model.forward(named(&model, &x, &further))?;
        let whole = whole.to_array::<f32>()?;
        let mut plan = model.plan(&stream, x.shape(), &Options::default())?;
        let mut y = plan.output()?;
        for _ in 0..2 {
            plan.execute(named(&model, &x, &further), &mut y)?;
            assert!(bits(&y.to_array::<f32>()?) == bits(&whole), "{}", case.name);
        }
        let all = [std::slice::from_ref(&case.x), &case.inputs[..]].concat();
        let y = model.forward_array(arrays(&case, &all))?;
        assert!(bits(&y) == bits(&whole), "{} as an array", case.name);
        if case.x.ndim() == 4 && !whole.is_empty() {
            let last = |of: &ArrayD<f32>| of.slice_axis(Axis(0), (-1..).into()).to_owned();
            let all: Vec<_> = all.iter().map(last).collect();
            let y = model.forward_array(arrays(&case, &all))?;
            assert!(bits(&y) == bits(&last(&whole)), "{}, its last", case.name);
        }
    }
    Ok(())
}

/// The input of `basic`, channels-last and dense.
fn both_orders(stream: &Stream, x: &ArrayD<f32>, dtype: DType) -> Result<[Tensor; 2], Failed> {
    let turned = layouts::lying(stream, x, dtype, &layouts::WAYS[0])?;
    Ok([turned, Tensor::from_f32_array(stream, x, dtype)?])
}

fn named_case(name: &str) -> Case {
    let name = format!("layer_graphs/{name}");
    let mut all = cases().into_iter();
    all.find(|case| case.name == name)
        .expect("a case of this name")
}

fn lying(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for name in ["basic", "downsampling", "classifier", "flattened"] {
        let case = &named_case(name);
        for dtype in [DType::F32, DType::F16] {
            let model = chains::model(&stream, case, dtype)?;
            let [turned, dense] = both_orders(&stream, &case.x, dtype)?;
            let given = |x| model.forward_with(x, &Options::default().output_layout(Layout::Nchw));
            let [turned, dense] = [given(&turned)?, given(&dense)?];
            let [turned, dense] = [bits(&turned.to_f32_array()?), bits(&dense.to_f32_array()?)];
            // In 16 bits, channels-last inputs have kernels with another order of sums.
            match dtype {
                DType::F32 => assert!(turned == dense, "{}", case.name),
                _ => are_close(&turned, &dense, (dtype, Precision::Fast)),
            }
        }
    }
    Ok(())
}

/// Two regions of `basic` read its input, whose layout differs from the one that they need.
fn copies(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let case = &cases()[0];
    let (model, ..) = loaded(case, &stream)?;
    let [turned, _] = both_orders(&stream, &case.x, DType::F32)?;
    let partition = "conv2d @direct | batch_norm | relu | conv2d | batch_norm | add | relu";
    let partition = Partition::parse(&case.graph, partition)?;
    let options = Options::default()
        .partition(partition)
        .output_layout(Layout::Nchw);
    let launches = model
        .plan_for(&stream, &turned, &options)?
        .explain()?
        .launches;
    let copies = launches
        .iter()
        .filter(|launch| launch.kernel.starts_with("copy_strided"));
    assert_eq!(copies.count(), 1);
    Ok(())
}

fn explained(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let case = &cases()[1];
    let (model, ..) = loaded(case, &stream)?;
    let explanation = model.explain(case.x.shape(), &Options::default())?;
    let regions = explanation.regions.iter();
    let regions: Vec<(&str, &str)> = regions.map(|of| (&*of.value, &*of.layers)).collect();
    let wanted = [
        ("first", "conv2d"),
        ("active", "group_norm silu"),
        ("second", "conv2d"),
        ("halved", "conv2d"),
        ("y", "group_norm add relu"),
    ];
    assert_eq!(regions, wanted);
    assert!(
        explanation
            .to_string()
            .contains("\ny = group_norm add relu: ")
    );
    assert_eq!(explanation.normal_form, None);
    // Layers with other layers in between are not a region.
    let partition = Partition::parse(
        &case.graph,
        "conv2d group_norm silu conv2d conv2d | group_norm add | relu",
    )?;
    let refused = model.explain(case.x.shape(), &Options::default().partition(partition));
    says(
        refused.map(drop),
        "conv2d group_norm silu conv2d conv2d: no kernels: others take what one of them gives that is not the last",
    )
}

/// A flatten belongs to the preceding region without additional launches. If the flattened value has other
/// users, it is a copy.
fn flattens(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let explain = |name: &str| -> convfuse::Result<_> {
        let case = named_case(name);
        let (model, ..) = loaded(&case, &stream)?;
        model.explain(case.x.shape(), &Options::default())
    };
    let classifier = explain("classifier")?;
    let head: Vec<_> = classifier.regions.iter().rev().take(2).collect();
    assert_eq!(
        (&*head[1].value, &*head[1].layers),
        ("flat", "adaptive_avg_pool2d flatten")
    );
    assert_eq!(head[1].launches.len(), 1);
    let copies = |explanation: &convfuse::model::Explanation| count(explanation, "copy_strided");
    assert_eq!(copies(&classifier), 0);
    let flattened = explain("flattened")?;
    let region = |value: &str| {
        flattened
            .regions
            .iter()
            .find(|of| of.value == value)
            .expect("a region")
    };
    assert!(region("flat.b").layers.ends_with("relu flatten"));
    assert_eq!(region("flat.c").layers, "flatten");
    // The flattens of `c`, which `d` also reads, and of the input.
    assert_eq!(copies(&flattened), 2);
    Ok(())
}

fn captured(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for case in &cases()[..3] {
        let (model, x, further) = loaded(case, &stream)?;
        let wanted = model.forward(named(&model, &x, &further))?;
        let mut inputs = Inputs::new(x.clone());
        for (name, value) in case.graph.inputs().iter().zip(&further) {
            inputs = inputs.with(name, value.clone());
        }
        let plan = model.plan(&stream, x.shape(), &Options::default())?;
        let mut captured = plan.capture(inputs)?;
        for _ in 0..2 {
            captured.replay()?;
            let y = captured.output().to_array::<f32>()?;
            assert!(
                bits(&y) == bits(&wanted.to_array::<f32>()?),
                "{}",
                case.name
            );
        }
    }
    Ok(())
}
