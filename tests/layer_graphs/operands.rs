//! Graphs whose functions have kept values, residuals and parameters as operands.

use convfuse::graph::{BroadcastParameter, Graph, Layer};

/// Values kept after a norm and after a reduction, quotients, and products with other layers' outputs.
pub(super) fn kept() -> Graph {
    let graph = Graph::builder("x", 8)
        .layer("a", "x", super::conv("a", 8, 3, 1))
        .layer("b", "a", Layer::group_norm("norm", 2))
        .layer("c", "b", Layer::sigmoid())
        .layer("d", "c", Layer::mul("b"))
        .layer("e", "x", Layer::sigmoid())
        .layer("f", "d", Layer::mul("e"))
        .layer("g", "f", Layer::max_pool2d(2))
        .layer("h", "g", Layer::softplus(1.0, 20.0))
        .layer("i", "g", Layer::div("h"))
        .layer("y", "i", Layer::sub("h"));
    graph.build("y").expect("a graph")
}

/// A kept value, with which the CPU computes a part of a plane at a time, and a residual behind it.
pub(super) fn kept_on_planes() -> Graph {
    let graph = Graph::builder("x", 1)
        .input("r")
        .layer("a", "x", Layer::silu())
        .layer("b", "a", Layer::tanh())
        .layer("c", "b", Layer::mul("a"))
        .layer("y", "c", Layer::add("r"));
    graph.build("y").expect("a graph")
}

/// Parameters with a residual right behind them, after a transposed convolution and after a softmax.
pub(super) fn operands() -> Graph {
    let graph = Graph::builder("x", 8)
        .input("r")
        .layer("a", "x", Layer::conv_transpose2d("up", 8, 2).stride(2))
        .layer("b", "a", Layer::relu())
        .layer("c", "b", Layer::mul(BroadcastParameter::new("gain")))
        .layer("d", "c", Layer::add("r"))
        .layer("e", "d", Layer::softmax(&[1]))
        .layer("f", "e", Layer::mul(BroadcastParameter::new("factor")))
        .layer("y", "f", Layer::sub("r"));
    graph.build("y").expect("a graph")
}
