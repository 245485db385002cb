//! Graphs: names, values that several layers take, paths.

use op_spec::Padding;
use op_spec::graph::{
    Chain, ConvLayer, Graph, GraphBuilder, GraphError, Layer, NormalForm, Operand, Partition,
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
fn a_path_ends_where_a_value_is_taken_by_others() {
    // The shortcut comes first, since the other path takes it.
    let graph = block().build("y").unwrap();
    assert_eq!(graph.paths(), [vec![2], vec![0, 1, 3, 4, 5]]);
    // Two layers take what the first gives.
    let graph = Graph::builder("x", 8)
        .layer("a", "x", conv("a"))
        .layer("b", "a", Layer::relu())
        .layer("c", "a", Layer::sigmoid())
        .layer("d", "b", Layer::add("c"))
        .build("d")
        .unwrap();
    assert_eq!(graph.paths(), [vec![0], vec![2], vec![1, 3]]);
    // And one layer that takes it twice.
    let graph = Graph::builder("x", 8)
        .layer("a", "x", conv("a"))
        .layer("b", "a", Layer::add("a"))
        .build("b")
        .unwrap();
    assert_eq!(graph.paths(), [[0], [1]]);
    assert_eq!(graph.operands(1), [Operand::Layer(0); 2]);
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
            => "graph: no layer takes y, and it is not the output";
        relu("y", "x").layer("z", "y", Layer::relu()).build("y")
            => "graph: the output is y, must be z, which the last layer gives";
        relu("y", "x").input("r").build("y")
            => "graph: no layer takes r, and it is not the output";
        relu("y", "x").build("z") => "graph: the output is z, must be y, which the last layer gives";
    }
    // What layers say of their operands.
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
