//! Families of cases: every operator, and the kinds of chains that have specialized kernels.

use convfuse::graph::{Chain, ConvLayer, ConvTransposeLayer, Graph, GraphError, Layer, Other};
use convfuse::spec::{ClampSpec, ReductionOp, UpsampleMode, UpsampleSpec};

mod chains;
mod copies;
mod graphs;

use chains::{
    alone, blocks, classifiers, depthwise, kernelbench_79, kernelbench_85, long_sums, many_tiles,
    networks, one_launch_79, one_launch_85, tails, transposed, volumes, wide,
};

use copies::{
    cat, channel_shuffle, flatten, gate, narrow, pad, pixel_shuffle, pixel_unshuffle, reshape,
};
use graphs::{graphs, two_outputs};

use super::choices::Choices;
use super::layers::{
    averages, batch_norm, batch_norm_by_batch, conv_attributes, function, group_norm,
    instance_norm, layer_norm, max_pool2d, max_pool3d, parameter, reduction, transposed_attributes,
};

/// The family of every reduction over axes.
const REDUCTION: &str = "reduction";

/// Layers and the shape of their input.
pub(super) struct Plan {
    pub(super) layers: Vec<Layer>,
    pub(super) input: Vec<usize>,
    /// The graph of the layers, if it is no chain.
    pub(super) graph: Option<Graph>,
}

impl Plan {
    /// The graph of the layers.
    pub(super) fn as_graph(&self) -> Result<Graph, GraphError> {
        match &self.graph {
            Some(graph) => Ok(graph.clone()),
            None => Ok(Chain::new(self.input[1], self.layers.clone())?.into()),
        }
    }
}

/// A kind of cases.
#[derive(Debug)]
pub struct Family {
    /// The name: an operator, or the characteristic of its chains.
    pub name: &'static str,
    pub(super) draw: fn(&mut Choices) -> Plan,
}

impl Family {
    const fn new(name: &'static str, draw: fn(&mut Choices) -> Plan) -> Family {
        Family { name, draw }
    }

    /// The name for the families of all operators.
    pub const OPERATORS: &str = "operators";

    /// The name for all other families, whose cases are chains of several layers.
    pub const CHAINS: &str = "chains";

    /// Returns the families of a name: one family, all operators, or all chains. Empty for an unknown name.
    #[must_use]
    pub fn named(name: &str) -> Vec<&'static Family> {
        let is_named = |family: &&Family| match name {
            Family::OPERATORS => family.is_operator(),
            Family::CHAINS => !family.is_operator(),
            name => family.has_cases_of(name),
        };
        FAMILIES.iter().filter(is_named).collect()
    }

    /// Whether its cases are single operators.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        let simplest = (self.draw)(&mut Choices::given(Vec::new()));
        matches!(&simplest.layers[..], [layer] if self.has_cases_of(layer.operator()))
    }

    /// Whether this is the family's name, or the name of an operator that its cases are drawn from.
    pub(super) fn has_cases_of(&self, name: &str) -> bool {
        let mut operations = ReductionOp::ALL.iter();
        self.name == name
            || self.name == REDUCTION && operations.any(|operation| operation.name() == name)
    }

    /// The family of case `number` of a campaign: each family in turn.
    ///
    /// # Panics
    /// If `families` is empty.
    #[must_use]
    pub fn of_number(families: &[&'static Family], number: u64) -> &'static Family {
        families[(number % families.len() as u64) as usize]
    }
}

/// All families. In a campaign of all families, case `n` belongs to family `n` modulo their number.
pub const FAMILIES: &[Family] = &[
    Family::new("conv1d", |c| convolution(c, [6], 80)),
    Family::new("conv2d", |c| convolution(c, [5, 5], 24)),
    Family::new("conv3d", |c| convolution(c, [3, 4, 4], 11)),
    Family::new("conv_transpose1d", |c| up(c, [9], 60)),
    Family::new("conv_transpose2d", |c| up(c, [5, 6], 16)),
    Family::new("conv_transpose3d", |c| up(c, [3, 4, 4], 6)),
    Family::new("linear", linear),
    Family::new("flatten", flatten),
    Family::new("reshape", reshape),
    Family::new("pad", pad),
    Family::new("cat", cat),
    Family::new("narrow", narrow),
    Family::new("gate", gate),
    Family::new("channel_shuffle", channel_shuffle),
    Family::new("pixel_shuffle", pixel_shuffle),
    Family::new("pixel_unshuffle", pixel_unshuffle),
    Family::new("group_norm", of_groups),
    Family::new("instance_norm", of_channels),
    Family::new("layer_norm", of_samples),
    Family::new("batch_norm", by_statistics),
    Family::new("scale", scale),
    Family::new("prelu", prelu),
    Family::new("add", |c| arithmetic(c, 13, Layer::add)),
    Family::new("max_pool2d", |c| pool(c, 2, max_pool2d)),
    Family::new("max_pool3d", |c| pool(c, 3, max_pool3d)),
    Family::new("avg_pool2d", |c| {
        pool(c, 2, |c, most| averages::<2>(c, most).into())
    }),
    Family::new("avg_pool3d", |c| {
        pool(c, 3, |c, most| averages::<3>(c, most).into())
    }),
    Family::new("adaptive_avg_pool2d", |c| {
        pool(c, 2, |_, _| Layer::adaptive_avg_pool2d(1))
    }),
    Family::new("adaptive_avg_pool3d", |c| {
        pool(c, 3, |_, _| Layer::adaptive_avg_pool3d(1))
    }),
    Family::new("upsample", upsample),
    Family::new(REDUCTION, over_axes),
    Family::new("softmax", |c| shares(c, Layer::softmax)),
    Family::new("log_softmax", |c| shares(c, Layer::log_softmax)),
    Family::new("relu", |c| pointwise(c, 0)),
    Family::new("clamp", |c| pointwise(c, 1)),
    Family::new("leaky_relu", |c| pointwise(c, 2)),
    Family::new("silu", |c| pointwise(c, 3)),
    Family::new("gelu", |c| pointwise(c, 4)),
    Family::new("sigmoid", |c| pointwise(c, 5)),
    Family::new("tanh", |c| pointwise(c, 6)),
    Family::new("hardswish", |c| pointwise(c, 7)),
    Family::new("elu", |c| pointwise(c, 8)),
    Family::new("softplus", |c| pointwise(c, 9)),
    Family::new("mish", |c| pointwise(c, 10)),
    Family::new("hardtanh", |c| pointwise(c, 11)),
    Family::new("hardsigmoid", |c| pointwise(c, 12)),
    Family::new("sub", |c| arithmetic(c, 14, Layer::sub)),
    Family::new("mul", |c| arithmetic(c, 15, Layer::mul)),
    Family::new("div", |c| arithmetic(c, 16, Layer::div)),
    Family::new("minimum", |c| pointwise(c, 17)),
    Family::new("maximum", |c| pointwise(c, 18)),
    Family::new("kernelbench_85", kernelbench_85),
    Family::new("kernelbench_79", kernelbench_79),
    Family::new("one_launch_85", one_launch_85),
    Family::new("one_launch_79", one_launch_79),
    Family::new("blocks", blocks),
    Family::new("volumes", volumes),
    Family::new("wide", wide),
    Family::new("long_sums", long_sums),
    Family::new("many_tiles", many_tiles),
    Family::new("depthwise", depthwise),
    Family::new("alone", alone),
    Family::new("tails", tails),
    Family::new("transposed", transposed),
    Family::new("classifiers", classifiers),
    Family::new("outputs", two_outputs),
    Family::new("networks", networks),
    Family::new("graphs", graphs),
];

/// Draws the shape of a tensor with these channels: up to three samples with `dimensions` dimensions of
/// `least` to `most` elements each.
fn shape(
    c: &mut Choices,
    channels: usize,
    dimensions: usize,
    least: usize,
    most: usize,
) -> Vec<usize> {
    let mut shape = vec![c.size(1, 3), channels];
    shape.extend((0..dimensions).map(|_| c.size(least, most)));
    shape
}

fn one(layer: Layer, input: Vec<usize>) -> Plan {
    several(vec![layer], input)
}

fn several(layers: Vec<Layer>, input: Vec<usize>) -> Plan {
    Plan {
        layers,
        input,
        graph: None,
    }
}

fn of_graph(chain: Result<Chain, GraphError>, input: &[usize]) -> Plan {
    let layers = chain.map_or_else(|_| Vec::new(), |chain| chain.layers().to_vec());
    several(layers, input.to_vec())
}

/// Draws a grouped convolution. `most` are the largest extents of its filter, and `extent` of its input.
fn convolution<const D: usize>(c: &mut Choices, most: [usize; D], extent: usize) -> Plan
where
    ConvLayer<D>: Into<Layer>,
{
    let (groups, of_group, filters) = (c.size(1, 3), c.size(1, 6), c.size(1, 9));
    // This order of drawing keeps the cases of earlier campaigns.
    let (attributes, bias) = (conv_attributes(c, groups), !c.once_in(3));
    let kernel_size = most.map(|most| c.within(1, most));
    let conv = ConvLayer::new("conv", groups * filters, kernel_size);
    let conv = conv.attributes(attributes).bias(bias);
    one(conv.into(), shape(c, groups * of_group, D, 1, extent))
}

/// Draws a grouped transposed convolution, and its number of input channels.
fn any_transposed<const D: usize>(
    c: &mut Choices,
    most: [usize; D],
) -> (ConvTransposeLayer<D>, usize) {
    let (groups, of_group, filters) = (c.size(1, 3), c.size(1, 6), c.size(1, 9));
    let kernel_size = most.map(|most| c.within(1, most));
    let attributes = transposed_attributes(c, groups, kernel_size);
    let conv = ConvTransposeLayer::new("up", groups * filters, kernel_size);
    let conv = conv.attributes(attributes).bias(!c.once_in(3));
    (conv, groups * of_group)
}

/// Draws a transposed convolution, as [`convolution`].
fn up<const D: usize>(c: &mut Choices, most: [usize; D], extent: usize) -> Plan
where
    ConvTransposeLayer<D>: Into<Layer>,
{
    let (conv, channels) = any_transposed(c, most);
    one(conv.into(), shape(c, channels, D, 1, extent))
}

/// Draws the shape of any tensor with channels: few long planes, or many short ones.
fn any(c: &mut Choices, channels: usize) -> Vec<usize> {
    let dimensions = c.within(0, 3);
    let most = [0, 3000, 60, 14][dimensions];
    shape(c, channels, dimensions, 1, most)
}

fn linear(c: &mut Choices) -> Plan {
    let (channels, features) = (c.size(1, 150), c.size(1, 150));
    let layer = Layer::linear("linear", channels, features).bias(!c.once_in(3));
    match c.once_in(2) {
        true => one(layer.into(), vec![c.size(1, 70), channels]),
        false => one(layer.dim(1).into(), any(c, channels)),
    }
}

/// Upsampling to a size or by a factor, in every mode.
fn upsample(c: &mut Choices) -> Plan {
    let dimensions = c.within(1, 3);
    let channels = c.size(1, 12);
    let input = shape(c, channels, dimensions, 1, [400, 20, 6][dimensions - 1]);
    let spec = match c.once_in(2) {
        true => UpsampleSpec::size(c.within(1, [900, 40, 12][dimensions - 1])),
        // A factor below 1 could leave an axis of extent 1 empty.
        false => UpsampleSpec::scale_factor(1.0 + c.within(0, 20) as f64 * 0.13),
    };
    let linear = [
        UpsampleMode::Linear,
        UpsampleMode::Bilinear,
        UpsampleMode::Trilinear,
    ];
    let spec = match c.below(4) {
        0 => spec,
        1 => spec.mode(UpsampleMode::NearestExact),
        more => spec.mode(linear[dimensions - 1]).align_corners(more == 3),
    };
    one(Layer::upsample(spec), input)
}

fn of_groups(c: &mut Choices) -> Plan {
    let (groups, channels) = (c.size(1, 9), c.size(1, 12));
    let layer = group_norm(c, "norm", groups);
    one(layer, any(c, groups * channels))
}

fn of_channels(c: &mut Choices) -> Plan {
    let (layer, channels, dimensions) = (instance_norm(c, "norm"), c.size(1, 12), c.within(1, 3));
    let most = [3000, 60, 14][dimensions - 1];
    one(layer, shape(c, channels, dimensions, 2, most))
}

fn of_samples(c: &mut Choices) -> Plan {
    let channels = c.size(1, 12);
    let input = any(c, channels);
    // A norm of each sample, of the last axes, or of the channels.
    let first = c.within(1, input.len() - 1);
    match c.once_in(3) {
        true => one(layer_norm(c, "norm", &input[1..2]).dim(1).into(), input),
        false => one(layer_norm(c, "norm", &input[first..]).into(), input),
    }
}

fn by_statistics(c: &mut Choices) -> Plan {
    if c.once_in(2) {
        let (layer, channels) = (batch_norm_by_batch(c, "norm"), c.size(1, 20));
        let dimensions = c.within(1, 3);
        let most = [3000, 60, 14][dimensions - 1];
        return one(layer, shape(c, channels, dimensions, 2, most));
    }
    let (layer, channels) = (batch_norm(c, "norm"), c.size(1, 20));
    one(layer, any(c, channels))
}

fn scale(c: &mut Choices) -> Plan {
    let channels = c.size(1, 20);
    one(Layer::scale("scale").into(), any(c, channels))
}

fn prelu(c: &mut Choices) -> Plan {
    let channels = c.size(1, 20);
    let slopes = c.of([1, channels]);
    one(Layer::prelu("prelu", slopes).into(), any(c, channels))
}

/// An arithmetic operation with a residual, with a constant (pointwise function `number`), or with a
/// parameter.
fn arithmetic(c: &mut Choices, number: u32, layer: fn(Other) -> Layer) -> Plan {
    let channels = c.size(1, 20);
    match c.below(3) {
        0 => one(layer("other".into()), any(c, channels)),
        1 => pointwise(c, number),
        _ => one(layer(parameter(c).into()), any(c, channels)),
    }
}

fn pool(c: &mut Choices, dimensions: usize, layer: fn(&mut Choices, usize) -> Layer) -> Plan {
    let (channels, layer) = (c.size(1, 6), layer(c, 8 - dimensions));
    let most = [60, 18][dimensions - 2];
    one(layer, shape(c, channels, dimensions, 1, most))
}

fn over_axes(c: &mut Choices) -> Plan {
    let channels = c.size(1, 300);
    let mut input = any(c, channels);
    // Keeps the planes short enough for this many channels.
    while input.len() > 2 && input.iter().product::<usize>() > 200_000 {
        input.pop();
    }
    one(reduction(c, input.len()), input)
}

/// A softmax, or its logarithm, over any adjacent axes.
fn shares(c: &mut Choices, layer: fn(&[isize]) -> Layer) -> Plan {
    let channels = c.size(1, 300);
    let mut input = any(c, channels);
    // Keeps the planes short enough for this many channels.
    while input.len() > 2 && input.iter().product::<usize>() > 200_000 {
        input.pop();
    }
    let first = c.within(1, input.len() - 1);
    let last = c.within(first, input.len() - 1);
    let from_the_end = if c.once_in(3) { input.len() } else { 0 };
    let dim: Vec<isize> = (first..=last)
        .map(|axis| axis as isize - from_the_end as isize)
        .collect();
    one(layer(&dim), input)
}

fn pointwise(c: &mut Choices, number: u32) -> Plan {
    let (layer, channels) = (function(c, number), c.size(1, 20));
    one(layer, any(c, channels))
}

fn bounds(c: &mut Choices) -> ClampSpec {
    // In most cases the minimum is below the maximum.
    match c.once_in(8) {
        true => ClampSpec::new(0.6, -0.4),
        false => ClampSpec::new(c.of([0.0, -0.7, -0.1]), c.of([1.0, 0.9, 0.2])),
    }
}
