//! Concatenations, slices and gates.

use op_spec::graph::{Chain, Graph, GraphError, Layer, NormalForm, Operand};
use op_spec::{NarrowSpec, SpecError};

/// A graph that swaps two parts of the channels and appends the input.
fn graph() -> Graph {
    Graph::builder("x", 6)
        .layer("low", "x", Layer::narrow(1, 0, 2))
        .layer("high", "x", Layer::narrow(1, 2, 4))
        .layer("turned", "high", Layer::cat(["low", "x"], 1))
        .layer("y", "turned", Layer::conv2d("conv", 3, 1))
        .build("y")
        .unwrap()
}

#[test]
fn channels_are_those_of_all_operands() {
    let graph = graph();
    assert_eq!(graph.parameters()[0].shape, [3, 12, 1, 1]);
    let problem = graph.problem(&[2, 6, 5, 7]).unwrap();
    let shapes: Vec<&[usize]> = problem.steps.iter().map(|step| &step.output[..]).collect();
    assert_eq!(
        shapes,
        [[2, 2, 5, 7], [2, 4, 5, 7], [2, 12, 5, 7], [2, 3, 5, 7]]
    );
    // A concatenation forms a region by itself and keeps its operands' order.
    assert_eq!(
        graph.operands(2),
        [Operand::Layer(1), Operand::Layer(0), Operand::Input(0)]
    );
    assert_eq!(graph.paths(), [&[0][..], &[1, 2, 3]]);
    assert!(NormalForm::of(&problem, [1, 2]).is_err());
    let form = NormalForm::of(&problem, [2]).unwrap();
    assert_eq!(form.summary().to_string(), "cat");
    // Files have the same operands.
    let file = serde_json::to_string(&graph).unwrap();
    assert!(
        file.contains(r#""input":"high","layer":{"cat":{"inputs":["low","x"],"dim":1}}"#),
        "{file}"
    );
    assert_eq!(serde_json::from_str::<Graph>(&file).unwrap(), graph);
}

#[test]
fn a_value_is_joined_with_itself() {
    let graph = Graph::builder("x", 3)
        .layer("y", "x", Layer::cat(["x", "mask"], 2))
        .input("mask")
        .build("y")
        .unwrap();
    let problem = graph.problem(&[2, 3, 4]).unwrap();
    assert_eq!(problem.output_shape(), [2, 3, 12]);
    assert_eq!(problem.inputs[0].shape, [2, 3, 4]);
    let file = serde_json::to_string(&graph).unwrap();
    assert_eq!(serde_json::from_str::<Graph>(&file).unwrap(), graph);
}

#[test]
fn what_does_not_fit_is_refused() {
    let of = |layer: Layer| Chain::new(6, [layer]);
    let graph = graph();
    let other_rows = Graph::builder("x", 4)
        .layer("less", "x", Layer::narrow(2, 0, 3))
        .layer("y", "less", Layer::cat(["x"], 1))
        .build("y")
        .unwrap();
    says! {
        of(Layer::cat(["m"], 0)) => "layer 0: cat: dim is 0, minimum 1";
        of(Layer::cat([""; 0], 1)) => "layer 0: cat: inputs is 0, minimum 1";
        of(Layer::cat([""], 1)) => "layer 0: cat: input is empty";
        of(Layer::cat(["m"], 4)).unwrap().problem(&[2, 6, 5, 7]) => "layer 0: cat: input has rank 4, minimum 5";
        of(Layer::narrow(0, 0, 1)) => "layer 0: narrow: dim is 0, minimum 1";
        of(Layer::narrow(1, 0, 0)) => "layer 0: narrow: length is 0, minimum 1";
        of(Layer::narrow(1, 4, 3))
            => "layer 0: narrow: start + length is 7, limit 6, the input's extent on axis 1";
        of(Layer::narrow(2, 4, 3)).unwrap().problem(&[2, 6, 5])
            => "layer 0: narrow: start + length is 7, limit 5, the input's extent on axis 2";
        of(Layer::narrow(1, usize::MAX, 2)) => "layer 0: narrow: start + length is";
        other_rows.problem(&[2, 4, 5, 7]) => "layer 1: y: cat: operand[2] is 5, expected 3";
        graph.problem(&[6, 5, 7]) => "layer 0: low: narrow: the input has rank 3 and no batch, expected rank 4";
    }
    assert_eq!(
        NarrowSpec::new(1, 0, 2).problem(&[3]),
        Err(SpecError::Rank {
            operator: "narrow",
            tensor: "input",
            actual: 1,
            rule: op_spec::RankRule::AtLeast(2),
        })
    );
    let further = Graph::builder("x", 6)
        .input("mask")
        .layer("y", "mask", Layer::cat(["x"], 1))
        .build("y");
    assert!(matches!(further, Err(GraphError::Named { .. })));
}

/// A feature pyramid: an output ends its path, whether or not layers take it.
#[test]
fn a_graph_has_several_outputs() {
    let conv = |name: &str| Layer::conv2d(name, 6, 3).padding(1).stride(2);
    let builder = || {
        Graph::builder("x", 6)
            .layer("p1", "x", conv("a"))
            .layer("active", "p1", Layer::relu())
            .layer("p2", "active", conv("b"))
            .layer("sum", "p2", Layer::add(1.0))
            .layer("p3", "sum", Layer::mul("p2"))
    };
    let graph = builder().output("p3").output("p1").build("p2").unwrap();
    assert_eq!(graph.outputs(), [2, 4, 0]);
    assert_eq!(graph.paths(), [&[0][..], &[1, 2], &[3, 4]]);
    assert!(graph.is_closed(&[1, 2]) && !graph.is_closed(&[2, 3]) && graph.is_closed(&[0]));
    let problem = graph.problem(&[2, 6, 8, 8]).unwrap();
    assert_eq!(problem.output_shape(), [2, 6, 2, 2]);
    let shapes: Vec<&[usize]> = problem.output_shapes().collect();
    assert_eq!(shapes, [[2, 6, 2, 2], [2, 6, 2, 2], [2, 6, 4, 4]]);
    let single = graph.problem(&[6, 8, 8]).unwrap();
    assert!(single.output_shapes().all(|shape| shape.len() == 3));
    let file = serde_json::to_string(&graph).unwrap();
    assert!(
        file.ends_with(r#""output":"p2","outputs":["p3","p1"]}"#),
        "{file}"
    );
    assert_eq!(serde_json::from_str::<Graph>(&file).unwrap(), graph);
    // With a single output, the path may take an inner value again.
    let graph = builder().build("p3").unwrap();
    assert_eq!(graph.paths(), [[0, 1, 2, 3, 4]]);
    refused! {
        builder().output("p3").build("p3") => "graph: the output p3 is an output already";
        builder().output("x").build("p3") => "graph: the output x is no value that a layer gives";
        builder().build("p2") => "graph: no layer takes p3, and it is no output";
    }
}

#[test]
fn a_gate_has_a_factor_for_each_channel_of_each_sample() {
    let squeezed = |layer: Layer| {
        Graph::builder("x", 4)
            .layer("pooled", "x", layer)
            .layer("weights", "pooled", Layer::sigmoid())
            .layer("y", "x", Layer::gate("weights"))
            .build("y")
    };
    let graph = squeezed(Layer::adaptive_avg_pool2d(1)).unwrap();
    let problem = graph.problem(&[2, 4, 5, 6]).unwrap();
    assert_eq!(problem.steps[2].input, [2, 4, 5, 6]);
    // The product begins a path, because other layers take the input. It is not commuted with the gate.
    assert_eq!(graph.paths(), [&[0, 1][..], &[2]]);
    assert_eq!(graph.operands(2), [Operand::Input(0), Operand::Layer(1)]);
    let chain = Chain::new(4, [Layer::gate("gate")]).unwrap();
    assert_eq!(
        chain.problem(&[2, 4, 5, 6]).unwrap().inputs[0].shape,
        [2, 4, 1, 1]
    );
    says! {
        squeezed(Layer::relu()).unwrap().problem(&[2, 4, 5, 6])
            => "layer 2: y: gate: residual[2] is 5, expected 1";
        squeezed(Layer::mean(&[2, 3]).into()).unwrap().problem(&[2, 4, 5, 6])
            => "layer 2: y: gate: residual has rank 2, expected 4";
        squeezed(Layer::conv2d("c", 3, 1).into()) => "layer 2: y: gate: residual[1] is 3, expected 4";
    }
}
