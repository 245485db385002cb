//! Regions, and what rows of the [table](super::table) answer about them.

use std::fmt;

use op_spec::graph::{Graph, GraphProblem, Layer, LayerProblem, NormalForm, Operand};

use super::Options;
use op_spec::Layout;

use crate::device::{DType, DeviceProperties, Order};

/// What a graph is lowered for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) problem: &'a GraphProblem,
    pub(crate) dtype: DType,
    /// How the graph's inputs lie in memory, the first one first. Others are dense.
    pub(crate) orders: &'a [Order],
    /// The element types and orders of the parameters that each run is given, in the order of the graph's
    /// table; none where the parameters are kept.
    pub(crate) given: &'a [(DType, Order)],
    pub(crate) properties: &'a DeviceProperties,
    pub(crate) options: &'a Options,
}

/// Some layers that are to be computed together: each takes what the one before it gives, which nothing but
/// they takes.
#[derive(Debug)]
pub(super) struct Region<'a> {
    pub(super) of: Query<'a>,
    pub(super) layers: &'a [usize],
    /// Nothing where the layers have none.
    pub(super) form: Option<NormalForm>,
    /// The layout of its input: the graph's, or what the region writes that gives it.
    pub(super) input: Layout,
    /// The layout that its output should have: that of its input, or of the graph's output.
    pub(super) output: Layout,
}

impl Region<'_> {
    /// Whether a pointwise function takes what the region gives, so that a launch for functions follows.
    pub(super) fn precedes_function(&self) -> bool {
        let last = self.layers.last().map(|&layer| Operand::Layer(layer));
        let mut layers = self.of.graph.layers().iter().enumerate();
        layers.any(|(number, layer)| {
            let operands = self.of.graph.operands(number).iter();
            matches!(layer, Layer::Pointwise(_)) && operands.copied().any(|of| Some(of) == last)
        })
    }
}

impl Query<'_> {
    /// The names of the operators of these layers.
    pub(super) fn operators(&self, layers: &[usize]) -> String {
        let operator = |&layer: &usize| self.graph.layers()[layer].operator();
        layers.iter().map(operator).collect::<Vec<_>>().join(" ")
    }

    /// How an input of the graph lies in memory.
    pub(super) fn order(&self, input: usize) -> Order {
        self.orders.get(input).copied().unwrap_or(Order::Dense)
    }

    /// The shape of an input of the graph, with a batch.
    pub(super) fn input_shape(&self, input: usize) -> Vec<usize> {
        match input.checked_sub(1) {
            None => self.problem.steps[0].input.clone(),
            Some(further) => {
                let shape = &self.problem.inputs[further].shape[..];
                let batch: &[usize] = if self.problem.is_batched { &[] } else { &[1] };
                [batch, shape].concat()
            }
        }
    }

    /// The layout of an input of the graph that has this shape, with a batch. One that is neither is made
    /// NCHW by a copy. Of one that is both, since it has one channel, the layout that is asked for of the
    /// output decides.
    pub(super) fn input_layout(&self, input: usize, shape: &[usize]) -> Layout {
        let order = self.order(input);
        if self.problem.is_batched && order == Order::Dense && is_both(shape) {
            return self.options.output_layout.unwrap_or(Layout::Nchw);
        }
        layout_of(&order, shape)
    }

    /// Whether the layer is a convolution whose padding a launch of its own puts around the input.
    pub(super) fn has_explicit_padding(&self, layer: usize) -> bool {
        match &self.problem.steps[layer].problem {
            LayerProblem::Conv1d(conv) => conv.pad.is_some(),
            LayerProblem::Conv2d(conv) => conv.pad.is_some(),
            LayerProblem::Conv3d(conv) => conv.pad.is_some(),
            _ => false,
        }
    }
}

/// Whether a dense tensor of this shape, with a batch, lies as in both layouts, since it has one channel.
fn is_both(shape: &[usize]) -> bool {
    shape.len() > 2 && shape[1] == 1
}

/// The layout of a tensor of this shape, with a batch.
fn layout_of(order: &Order, shape: &[usize]) -> Layout {
    let channels_are_neighbours = |[_, channels, ..]: [i64; 5]| channels == 1;
    match order.strides(shape).is_some_and(channels_are_neighbours) {
        true => Layout::Nhwc,
        false => Layout::Nchw,
    }
}

impl Query<'_> {
    /// The layout of an output of the graph.
    pub(super) fn output_layout(&self, output: usize) -> Layout {
        output_layout(self.problem, output, &self.order(0), self.options)
    }
}

/// The layout of an output of a graph whose first input has this order. Without a batch it is NCHW.
pub(crate) fn output_layout(
    problem: &GraphProblem,
    output: usize,
    first: &Order,
    options: &Options,
) -> Layout {
    let input = &problem.steps[0].input;
    let output = &problem.steps[problem.outputs[output]].output;
    let has_its_axes = output.len() == input.len();
    match options.output_layout {
        _ if !(problem.is_batched && has_its_axes) => Layout::Nchw,
        Some(layout) => layout,
        None => layout_of(first, input),
    }
}

impl Region<'_> {
    /// The axes of what its first layer gives, with the batch.
    pub(super) fn axes(&self) -> usize {
        self.of.problem.steps[self.layers[0]].output.len()
    }

    /// Whether the region's input lies densely in NHWC.
    pub(super) fn is_dense_nhwc(&self) -> bool {
        let first = self.layers[0];
        let shape = &self.of.problem.steps[first].input;
        self.input == Layout::Nhwc
            && match self.of.graph.operands(first)[0] {
                Operand::Layer(_) => true,
                Operand::Input(input) => Order::of_layout(shape, Layout::Nhwc)
                    .is_ok_and(|order| order == self.of.order(input)),
            }
    }

    /// Whether the region's input lies as a dense one in NHWC does, and its output may: in both layouts, if
    /// they have one pixel.
    pub(super) fn may_be_nhwc(&self) -> bool {
        let first = self.layers[0];
        let [input, output] = [
            &self.of.problem.steps[first].input,
            &self.of.problem.steps[self.layers[self.layers.len() - 1]].output,
        ];
        let has_one_pixel = |shape: &[usize]| shape[2..].iter().all(|&extent| extent == 1);
        let is_dense = match self.of.graph.operands(first)[0] {
            Operand::Layer(_) => true,
            Operand::Input(number) => self.of.order(number) == Order::Dense,
        };
        match (has_one_pixel(input) && has_one_pixel(output), self.input) {
            (true, Layout::Nchw) => is_dense,
            _ => self.is_dense_nhwc() && self.output == Layout::Nhwc,
        }
    }

    /// The strides of the region's input, `(n, c, d, h, w)`, where it is not dense NCHW and starts on a
    /// vector.
    pub(super) fn strides(&self) -> Option<[i64; 5]> {
        let first = self.layers[0];
        let input = &self.of.problem.steps[first].input;
        let order = match self.of.graph.operands(first)[0] {
            // A padding kernel writes NCHW.
            _ if self.of.has_explicit_padding(first) => return None,
            Operand::Input(number) => self.of.order(number),
            Operand::Layer(_) => Order::of_layout(input, self.input).ok()?,
        };
        match order {
            Order::Dense if self.input == Layout::Nhwc && is_both(input) => {
                nhwc_strides_of_one_channel(input)
            }
            order => order.strides(input),
        }
    }

    /// Whether each run is given the weight of the convolution `layer`, densely in NHWC and in the type of
    /// the tensors. No other layer has it.
    pub(super) fn is_given_in_nhwc(&self, layer: usize) -> bool {
        let (graph, given) = (self.of.graph, self.of.given);
        let slot = graph.parameters_of(layer)[0];
        let uses = (0..graph.layers().len()).flat_map(|layer| graph.parameters_of(layer));
        let is_only_use = uses.filter(|&&used| used == slot).count() == 1;
        given.get(slot).is_some_and(|(dtype, order)| {
            let shape = &graph.parameters()[slot].shape;
            let in_nhwc = Order::of_layout(shape, Layout::Nhwc);
            is_only_use && *dtype == self.of.dtype && in_nhwc.is_ok_and(|nhwc| nhwc == *order)
        })
    }

    /// Shape of the output of the layer `layer`.
    pub(super) fn output_of(&self, layer: usize) -> &[usize] {
        &self.of.problem.steps[layer].output
    }
}

/// The strides, as volumes, of a dense tensor of one channel that is taken for NHWC.
fn nhwc_strides_of_one_channel(shape: &[usize]) -> Option<[i64; 5]> {
    let mut strides = [1; 5];
    let spatial = shape.get(2..).filter(|spatial| spatial.len() <= 3)?;
    let mut step = 1;
    for (place, &extent) in [4, 3, 2].into_iter().zip(spatial.iter().rev()) {
        strides[place] = step;
        step *= i64::try_from(extent).ok()?;
    }
    // Axes that the shape lacks have one element.
    strides[2..5 - spatial.len()].fill(step);
    strides[0] = step;
    Some(strides)
}

/// A region, and how its kernels were chosen.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RegionFacts {
    /// The operators' names.
    pub layers: String,
    /// The name of the value that the region writes; empty in a chain.
    pub value: String,
    /// The row of the table that does it.
    pub kernels: &'static str,
    /// What runs, in words.
    pub summary: String,
    /// The layout that the region reads; a copy makes it of any other.
    pub reads: Layout,
    /// The layout that the region writes.
    pub writes: Layout,
    /// The configuration of the producer: tile, loader, split-K, schedule. Empty where there is nothing to
    /// configure.
    pub config: String,
    /// The kernels of its launches in every run, in order: copies and padding of inputs, reformats, the
    /// producer, what combines its moments, the epilogue.
    pub launches: Vec<&'static str>,
    /// The kernels that prepare its parameters, once for a model.
    pub preparations: Vec<&'static str>,
    /// Bytes of what the region reads and writes, its parameters included, each once.
    pub bytes: u64,
    /// Operations of its convolutions.
    pub flop: u64,
    /// The least time that the device allows for these by its data sheet, without what a launch takes.
    /// Nothing where its rates are not known.
    pub least_s: Option<f64>,
    /// The rows that were asked, from top to bottom. Those for other layers are left out.
    pub considered: Vec<Considered>,
}

/// What a row of the table answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Considered {
    /// The operators of the layers that it was asked for: those of the region, or more.
    pub layers: String,
    /// The row.
    pub kernels: &'static str,
    /// Its answer.
    pub verdict: Verdict,
}

/// An answer of a row of the table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It does the region.
    Taken,
    /// It could do the region, but there is a better one: why.
    Passed(String),
    /// It cannot do the region: the rule that is broken.
    Refused(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Taken => f.write_str("yes"),
            Verdict::Passed(reason) => write!(f, "could, but: {reason}"),
            Verdict::Refused(rule) => write!(f, "no: {rule}"),
        }
    }
}
