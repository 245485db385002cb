//! Graphs whose values have several readers, are parts of others, and are outputs.

use convfuse::graph::{ConvLayer, ConvTransposeLayer, Graph, Layer};
use convfuse::spec::{Conv2dSpec, ConvTranspose2dSpec, PaddingMode};

use super::super::choices::Choices;
use super::super::layers::{batch_norm, function};
use super::{Plan, chains::blocks, shape};

/// A value of a graph under construction.
struct Value {
    name: String,
    channels: usize,
    /// Whether a layer reads it.
    is_read: bool,
}

/// Returns the number of a value; 0 chooses the latest.
fn any(c: &mut Choices, values: &[Value]) -> usize {
    values.len() - 1 - c.within(0, values.len() - 1)
}

/// A convolution that keeps the extents, and its filters. Most numbers of filters are whole vectors of 16
/// bytes.
fn conv(c: &mut Choices, name: &str) -> (Layer, usize) {
    let filters = match c.below(4) {
        0..=2 => 8 * c.size(1, 9),
        _ => c.size(1, 20),
    };
    let extent = c.of([1, 3]);
    let bias = !c.once_in(3);
    let layer = match c.below(8) {
        0 => {
            let attributes = ConvTranspose2dSpec::default().padding([extent / 2; 2]);
            let conv = ConvTransposeLayer::new(name, filters, [extent; 2]);
            conv.attributes(attributes).bias(bias).into()
        }
        kind => {
            let mode = match kind {
                1 => PaddingMode::Reflect,
                _ => PaddingMode::Zeros,
            };
            let attributes = Conv2dSpec::default().padding([extent / 2; 2]);
            let conv = ConvLayer::new(name, filters, [extent; 2]);
            conv.attributes(attributes.padding_mode(mode))
                .bias(bias)
                .into()
        }
    };
    (layer, filters)
}

/// Convolutions, sums, concatenations, norms, functions and pools of any earlier values. What no layer reads
/// is an output, and so are some other values.
pub(super) fn graphs(c: &mut Choices) -> Plan {
    let channels = 8 * c.size(1, 4);
    let input = shape(c, channels, 2, 2, 9);
    let name = |number: usize| number.to_string();
    let mut graph = Graph::builder(name(0), channels);
    let mut values = vec![Value {
        name: name(0),
        channels,
        is_read: false,
    }];
    let mut outputs = Vec::new();
    for number in 1..=c.within(3, 9) {
        let of = any(c, &values);
        let (mut channels, mut others) = (values[of].channels, Vec::new());
        let own = format!("layer{number}");
        let layer = match c.below(9) {
            0..=3 => {
                let (layer, filters) = conv(c, &own);
                channels = filters;
                layer
            }
            4 | 5 => {
                others.extend((0..c.within(1, 2)).map(|_| any(c, &values)));
                channels += others.iter().map(|&of| values[of].channels).sum::<usize>();
                Layer::cat(others.iter().map(|&of| &*values[of].name), 1)
            }
            6 => {
                let alike = |of: &usize| values[*of].channels == channels;
                others.extend((0..of).rev().find(alike));
                match others.first() {
                    Some(&other) => Layer::add(&*values[other].name),
                    None => Layer::relu(),
                }
            }
            7 => match c.once_in(2) {
                true => batch_norm(c, &own),
                false => Layer::max_pool2d(3).stride(1).padding(1).into(),
            },
            _ => {
                let number = c.below(4);
                function(c, number)
            }
        };
        for read in others.into_iter().chain([of]) {
            values[read].is_read = true;
        }
        graph = graph.layer(name(number), &values[of].name, layer);
        if c.once_in(4) {
            outputs.push(number);
        }
        values.push(Value {
            name: name(number),
            channels,
            is_read: false,
        });
    }
    let last = values.len() - 1;
    for (number, value) in values.iter().enumerate().take(last).skip(1) {
        if outputs.contains(&number) || !value.is_read {
            graph = graph.output(&*value.name);
        }
    }
    let graph = graph.build(&name(last)).ok();
    Plan {
        layers: (graph.iter())
            .flat_map(|graph| graph.layers().to_vec())
            .collect(),
        input,
        graph,
    }
}

/// A block whose value before the last layer is a further output.
pub(super) fn two_outputs(c: &mut Choices) -> Plan {
    let mut plan = blocks(c);
    if plan.layers.len() < 2 {
        plan.layers.push(Layer::relu());
    }
    let output = c.within(0, plan.layers.len() - 2);
    plan.graph = with_output(&plan, output);
    plan
}

/// The graph of a plan's chain with the output of a layer before the last one; `None` if there is no such
/// chain.
fn with_output(plan: &Plan, output: usize) -> Option<Graph> {
    let chain = plan.as_graph().ok()?;
    // No input has a number as its name.
    let value = |layer: usize| layer.to_string();
    let inputs = chain.inputs().iter();
    let mut builder = inputs.fold(Graph::builder("x", plan.input[1]), |builder, name| {
        builder.input(name)
    });
    let mut before = "x".to_owned();
    for (index, layer) in plan.layers.iter().enumerate() {
        builder = builder.layer(value(index), &before, layer.clone());
        before = value(index);
    }
    builder.output(value(output)).build(&before).ok()
}
