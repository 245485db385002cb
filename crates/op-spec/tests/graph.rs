//! Graphs: names, values with several readers, paths.

use op_spec::Padding;
use op_spec::graph::{
    BroadcastParameter, Chain, ConvLayer, Graph, GraphBuilder, GraphError, Layer, NormalForm,
    Operand, OtherTensor, Partition,
};

fn conv(name: &str) -> Layer {
    let mut conv = ConvLayer::new(name, 8, [3, 3]);
    conv.attributes.padding = Padding::from([1, 1]);
    Layer::from(conv)
}

/// `relu(second(relu(first(x))) + shortcut(x))`.
fn block() -> GraphBuilder {
    Graph::builder("x", 8)
        .layer("first", "x", conv("conv1"))
        .layer("active", "first", Layer::relu())
        .layer("shortcut", "x", conv("down"))
        .layer("second", "active", conv("conv2"))
        .layer("sum", "second", Layer::add("shortcut"))
        .layer("y", "sum", Layer::relu())
}

#[test]
fn a_graph_has_the_values_that_its_layers_take() {
    let graph = block().build("y").unwrap();
    let operands = (0..6).map(|layer| graph.operands(layer).to_vec());
    let (x, layer) = (Operand::Input(0), Operand::Layer);
    let sum = vec![layer(3), layer(2)];
    let wanted = [
        vec![x],
        vec![layer(0)],
        vec![x],
        vec![layer(1)],
        sum,
        vec![layer(4)],
    ];
    assert!(operands.eq(wanted));
    assert_eq!(graph.name_of(3), "second");
    let names: Vec<&str> = (graph.parameters().iter())
        .map(|parameter| &*parameter.name)
        .collect();
    assert_eq!(names[2], "down.weight");
    assert!(graph.inputs().is_empty());
    let problem = graph.problem(&[2, 8, 5, 6]).unwrap();
    assert_eq!(problem.output_shape(), [2, 8, 5, 6]);
    // Without a batch.
    assert_eq!(graph.problem(&[8, 5, 6]).unwrap().output_shape(), [8, 5, 6]);
}

#[test]
fn what_is_debugged_is_a_call_for_each_layer() {
    let graph = Graph::builder("x", 8)
        .input("mask")
        .layer("first", "x", conv("conv"))
        .layer("masked", "first", Layer::mul("mask"))
        .layer("y", "masked", Layer::add("x"))
        .output("first")
        .build("y")
        .unwrap();
    assert_eq!(
        format!("{graph:?}"),
        r#"Graph { in_channels: 8, inputs: ["x", "mask"], layers: [first = conv2d("conv", x), masked = mul(first, mask), y = add(masked, x)], outputs: ["y", "first"] }"#
    );
    let layers = [
        conv("conv"),
        Layer::relu(),
        Layer::add("x"),
        Layer::mul(OtherTensor::Layer(0)),
    ];
    let chain = Chain::new(8, layers).unwrap();
    let calls = r#"in_channels: 8, layers: [conv2d("conv"), relu(), add(x), mul(0)] }"#;
    assert_eq!(format!("{chain:?}"), format!("Chain {{ {calls}"));
    assert_eq!(
        format!("{:?}", Graph::from(chain)),
        format!("Graph {{ {calls}")
    );
}

#[test]
fn a_path_ends_where_a_value_is_taken_by_others() {
    // The shortcut's path comes first, because the other path takes its value.
    let graph = block().build("y").unwrap();
    assert_eq!(graph.paths(), [vec![2], vec![0, 1, 3, 4, 5]]);
    // Two layers take the output of `a`.
    let graph = Graph::builder("x", 8)
        .layer("a", "x", conv("a"))
        .layer("b", "a", Layer::relu())
        .layer("c", "a", Layer::sigmoid())
        .layer("d", "b", Layer::add("c"))
        .build("d")
        .unwrap();
    assert_eq!(graph.paths(), [vec![0], vec![2], vec![1, 3]]);
    // An addition takes `a` again: the path continues behind a function in between, not a convolution.
    let sum = |between: Layer| {
        Graph::builder("x", 8)
            .layer("a", "x", conv("a"))
            .layer("b", "a", between)
            .layer("c", "b", Layer::add("a"))
            .build("c")
            .unwrap()
    };
    assert_eq!(sum(conv("b")).paths(), [vec![0], vec![1, 2]]);
    assert_eq!(sum(Layer::relu()).paths(), [[0, 1, 2]]);
}

/// Paths with a kept value, `((y + b) + y) * y + y`, and regions that would need another one at the same
/// time.
#[test]
fn a_path_leads_on_where_arithmetic_takes_a_value_again() {
    let of = |layers: &[(&str, &str, Layer)]| {
        let mut graph = Graph::builder("x", 8).layer("y", "x", conv("y"));
        for (name, input, layer) in layers {
            graph = graph.layer(*name, *input, layer.clone());
        }
        graph.build(layers[layers.len() - 1].0).unwrap()
    };
    let (y, layer) = (Operand::Layer(0), Operand::Layer);
    let graph = of(&[
        ("a", "y", Layer::add(BroadcastParameter::new("b"))),
        ("b", "y", Layer::add("a")),
        ("c", "b", Layer::mul("y")),
        ("d", "y", Layer::add("c")),
    ]);
    assert_eq!(graph.paths(), [[0, 1, 2, 3, 4]]);
    assert_eq!(graph.operands(2), [layer(1), y]);
    assert_eq!(graph.operands(4), [layer(3), y]);
    assert!(graph.is_closed(&[0]) && graph.is_closed(&[0, 1, 2, 3, 4]));
    assert!(!graph.is_closed(&[0, 1]) && !graph.is_closed(&[0, 1, 2, 3]));
    let problem = graph.problem(&[2, 8, 5, 6]).unwrap();
    let form = |layers: &[usize]| NormalForm::of(&problem, layers.iter().copied());
    let summary = |layers: &[usize]| form(layers).unwrap().summary().to_string();
    assert_eq!(
        summary(&[0, 1, 2, 3, 4]),
        "convolution, keep, add, add, mul, add"
    );
    // From outside of the region it is a residual.
    assert_eq!(summary(&[1, 2, 3, 4]), "add, add, mul, add");
    // A value is taken twice by one layer.
    let graph = of(&[("a", "y", Layer::mul("y")), ("b", "a", Layer::sub("a"))]);
    assert_eq!(graph.paths(), [[0, 1, 2]]);
    assert_eq!(graph.operands(1), [y; 2]);
    // Two values, kept one after the other.
    let graph = of(&[
        ("a", "y", Layer::sigmoid()),
        ("b", "a", Layer::mul("y")),
        ("c", "b", Layer::tanh()),
        ("d", "b", Layer::div("c")),
        ("e", "d", Layer::relu()),
    ]);
    // The path leads through the dividend.
    assert_eq!(graph.paths(), [vec![0, 1, 2], vec![3], vec![4, 5]]);
    let graph = of(&[
        ("a", "y", Layer::sigmoid()),
        ("b", "a", Layer::mul("y")),
        ("c", "b", Layer::tanh()),
        ("d", "c", Layer::div("b")),
        ("e", "d", Layer::relu()),
    ]);
    assert_eq!(graph.paths(), [[0, 1, 2, 3, 4, 5]]);
    // Two values at the same time: the path of the first one ends.
    let graph = of(&[
        ("a", "y", Layer::sigmoid()),
        ("b", "a", Layer::mul("y")),
        ("c", "b", Layer::add("a")),
    ]);
    assert_eq!(graph.paths(), [vec![0], vec![1, 2, 3]]);
    let problem = graph.problem(&[2, 8, 5, 6]).unwrap();
    let refused = NormalForm::of(&problem, 0..4).unwrap_err();
    assert_eq!(refused.layer, 2);
    // A norm in between.
    let graph = of(&[
        ("a", "y", Layer::group_norm("n", 2).into()),
        ("b", "a", Layer::mul("y")),
    ]);
    assert_eq!(graph.paths(), [vec![0], vec![1, 2]]);
    let problem = graph.problem(&[2, 8, 5, 6]).unwrap();
    assert_eq!(NormalForm::of(&problem, 0..3).unwrap_err().layer, 1);
    // A reduction in between that keeps the shape.
    let graph = of(&[
        ("a", "y", Layer::softmax(&[1])),
        ("b", "a", Layer::mul("y")),
    ]);
    let problem = graph.problem(&[2, 8, 5, 6]).unwrap();
    assert_eq!(NormalForm::of(&problem, 0..3).unwrap_err().layer, 2);
    // A path is split if a layer of another path needs one of its inner values.
    let graph = of(&[
        ("a", "y", Layer::sigmoid()),
        ("b", "y", Layer::tanh()),
        ("c", "a", Layer::mul("b")),
    ]);
    assert_eq!(graph.paths(), [vec![0], vec![2], vec![1, 3]]);
}

#[test]
fn a_layer_takes_what_an_earlier_one_gives_by_its_number() {
    let first = || OtherTensor::Layer(0);
    let chain = Chain::new(8, (conv("a"), Layer::sigmoid(), Layer::mul(first()))).unwrap();
    assert_eq!(chain.paths(), [[0, 1, 2]]);
    assert_eq!(chain.operands(2), [Operand::Layer(1), Operand::Layer(0)]);
    assert!(chain.inputs().is_empty());
    let text = serde_json::to_string(&chain).unwrap();
    assert!(text.contains(r#"{"mul":{"layer":0}}"#), "{text}");
    assert_eq!(serde_json::from_str::<Chain>(&text).unwrap(), chain);
    let graph = Graph::builder("x", 8)
        .layer("a", "x", Layer::relu())
        .layer("b", "x", Layer::sub(first()))
        .build("b")
        .unwrap();
    assert_eq!(graph.operands(1), [Operand::Input(0), Operand::Layer(0)]);
    refused! {
        Chain::new(8, [Layer::relu(), Layer::add(OtherTensor::Layer(1))])
            => "layer 1: add: layer 1 does not come before it";
        Graph::builder("x", 8).layer("a", "x", Layer::add(first())).build("a")
            => "layer 0: a: add: layer 0 does not come before it";
        Chain::new(8, (Layer::conv2d("a", 4, 1), Layer::conv2d("b", 8, 1), Layer::add(first())))
            => "layer 2: add: residual[1] is 4, expected 8";
    }
}

/// `identity + conv(x)` as well as `conv(x) + identity`.
#[test]
fn a_path_leads_through_either_operand_of_an_addition() {
    let graph = Graph::builder("x", 8)
        .input("skip")
        .layer("a", "x", conv("a"))
        .layer("b", "x", Layer::add("a"))
        .layer("c", "b", Layer::add("skip"))
        .build("c")
        .unwrap();
    assert_eq!(graph.paths(), [[0, 1, 2]]);
    assert_eq!(graph.operands(1), [Operand::Layer(0), Operand::Input(0)]);
    assert_eq!(graph.operands(2), [Operand::Layer(1), Operand::Input(1)]);
    assert_eq!(graph.inputs(), ["skip"]);
    let problem = graph.problem(&[2, 8, 5, 6]).unwrap();
    assert_eq!(problem.inputs[0].shape, [2, 8, 5, 6]);
    let form = NormalForm::of(&problem, graph.paths()[0].iter().copied()).unwrap();
    assert_eq!(form.summary().to_string(), "convolution, add, add");
}

#[test]
fn a_chain_is_the_simplest_graph() {
    let chain = Chain::new(8, (conv("a"), Layer::add("r"), Layer::relu())).unwrap();
    assert_eq!(chain.paths(), [[0, 1, 2]]);
    assert_eq!(chain.operands(1), [Operand::Layer(0), Operand::Input(1)]);
    assert_eq!(chain.name_of(2), "");
    let graph: Graph = chain.clone().into();
    assert_eq!(graph, *chain);
    // A partition names the layers in the graph's order.
    let graph = block().build("y").unwrap();
    let text = "conv2d relu | conv2d | conv2d add relu";
    let partition = Partition::parse(&graph, text).unwrap();
    assert_eq!(partition.display(&graph), text);
}

#[test]
fn what_is_no_graph_is_refused() {
    let empty = || Graph::builder("x", 8);
    assert!(matches!(empty().build("x"), Err(GraphError::Empty)));
    let relu = |name, input| empty().layer(name, input, Layer::relu());
    refused! {
        relu("", "x").build("") => "graph: a value has no name";
        relu("x", "x").build("x") => "graph: two values have the name x";
        empty().input("x").build("x") => "graph: two values have the name x";
        relu("y", "z").build("y") => "layer 0: y: relu: there is no value z before it, only x";
        empty().layer("y", "x", Layer::add("y")).build("y") => "layer 0: y: add: there is no value y before it, only x";
        empty().input("z").layer("y", "z", Layer::add("x")).build("y")
            => "layer 0: y: add: input z is its first operand, whose shape must be known";
        relu("y", "x").layer("z", "x", Layer::relu()).build("z")
            => "graph: no layer takes y, and it is no output";
        relu("y", "x").layer("z", "y", Layer::relu()).build("y")
            => "graph: no layer takes z, and it is no output";
        relu("y", "x").input("r").build("y")
            => "graph: no layer takes r, and it is no output";
        relu("y", "x").build("z") => "graph: the output z is no value that a layer gives";
    }
    // Errors of the layers about their operands.
    let sum = |b| {
        let branches = empty().layer("a", "x", conv("a")).layer("b", "x", b);
        branches.layer("c", "a", Layer::add("b")).build("c")
    };
    refused! {
        sum(Layer::conv2d("n", 4, 3)) => "layer 2: c: add: residual[1] is 4, expected 8";
        sum(Layer::conv2d("n", 8, 3)).unwrap().problem(&[2, 8, 5, 6])
            => "layer 2: c: add: residual[2] is 3, expected 5";
    }
    let error = empty()
        .layer("a", "x", Layer::max(&[1]))
        .layer("b", "a", Layer::group_norm("norm", 4))
        .build("b")
        .unwrap_err();
    let GraphError::Named { name, source } = error else {
        panic!("{error}");
    };
    assert_eq!(name, "b");
    assert!(matches!(*source, GraphError::NoChannels { layer: 1, .. }));
}
