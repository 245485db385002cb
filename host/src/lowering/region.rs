//! Regions, and the facts about how their kernels were chosen.

use std::fmt;

use op_spec::graph::{Graph, GraphProblem, Layer, NormalForm, Operand};

use super::Options;
use op_spec::Layout;

use crate::device::{DType, DeviceProperties, Order};
use crate::operators::{OwnKernels, own_kernels};

/// The problem and the conditions for which a graph is lowered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) problem: &'a GraphProblem,
    pub(crate) dtype: DType,
    /// The memory orders of the graph's inputs, the first input's first. Missing entries mean dense.
    pub(crate) orders: &'a [Order],
    /// The element types and orders of the parameters that are passed to each run, in the order of the
    /// graph's table; empty if the program keeps the parameters.
    pub(crate) given: &'a [(DType, Order)],
    /// The element types in which kernels read the parameters, in the order of the graph's table. Missing
    /// entries mean the tensors' type.
    pub(crate) read_as: &'a [DType],
    pub(crate) properties: &'a DeviceProperties,
    pub(crate) options: &'a Options,
}

/// A chain of layers that are computed together. Each layer reads the output of the layer before it, and
/// nothing outside of the region reads the outputs in between.
#[derive(Debug)]
pub(super) struct Region<'a> {
    pub(super) of: Query<'a>,
    pub(super) layers: &'a [usize],
    /// The normal form; `None` if the layers do not have one together.
    pub(super) form: Option<NormalForm>,
    /// The layout of the region's input: that of the value, or the one to which it may be reformatted.
    pub(super) input: Layout,
    /// Whether the value has another layout. A region that reads NHWC then begins with a reformat.
    pub(super) is_reformatted: bool,
    /// The preferred layout of the region's output: the input's, or that of the graph's output.
    pub(super) output: Layout,
}

impl Region<'_> {
    /// Whether a partition defines the region. Its kernels then need not be faster than those of other
    /// regions.
    pub(super) fn is_given(&self) -> bool {
        self.of.options.partition.is_some()
    }

    /// Whether a pointwise function reads the region's output, so that a launch for functions follows.
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

    /// The memory order of an input of the graph.
    pub(super) fn order(&self, input: usize) -> Order {
        self.orders.get(input).copied().unwrap_or(Order::Dense)
    }

    /// The element type in which kernels read a parameter of the graph's table.
    pub(crate) fn parameter_dtype(&self, slot: usize) -> DType {
        self.read_as.get(slot).copied().unwrap_or(self.dtype)
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

    /// The layout of an input of the graph with this shape, including a batch. A copy makes an input NCHW if
    /// it has neither layout. An input with one channel has both layouts; the requested layout of the output
    /// then decides.
    pub(super) fn input_layout(&self, input: usize, shape: &[usize]) -> Layout {
        let order = self.order(input);
        if self.problem.is_batched && order == Order::Dense && is_both(shape) {
            return self.options.output_layout.unwrap_or(Layout::Nchw);
        }
        layout_of(&order, shape)
    }

    /// Whether the layer is a convolution whose input is padded by a separate launch.
    pub(super) fn has_explicit_padding(&self, layer: usize) -> bool {
        let kernels = own_kernels(&self.problem.steps[layer].problem);
        kernels.is_some_and(OwnKernels::has_separate_padding)
    }
}

/// Whether a dense tensor of this shape, including a batch, has both layouts, because it has one channel.
pub(super) fn is_both(shape: &[usize]) -> bool {
    shape.len() > 2 && shape[1] == 1
}

/// The layout of a tensor of this shape, including a batch.
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

/// The layout of an output of a graph whose first input has this order. An output without a batch is NCHW.
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
    /// The number of axes of the first layer's output, including the batch.
    pub(super) fn axes(&self) -> usize {
        self.of.problem.steps[self.layers[0]].output.len()
    }

    /// Whether the region's input is dense NHWC.
    pub(super) fn is_dense_nhwc(&self) -> bool {
        let first = self.layers[0];
        let shape = &self.of.problem.steps[first].input;
        self.input == Layout::Nhwc
            && match self.of.graph.operands(first)[0] {
                Operand::Layer(_) => true,
                Operand::Input(_) if self.is_reformatted => true,
                Operand::Input(input) => Order::of_layout(shape, Layout::Nhwc)
                    .is_ok_and(|order| order == self.of.order(input)),
            }
    }

    /// Whether the region's input is dense NHWC and its output may be NHWC. Tensors with one pixel have both
    /// layouts.
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

    /// The strides `(n, c, d, h, w)` of the region's input, if it is not dense NCHW and its start is aligned
    /// to vectors.
    pub(super) fn strides(&self) -> Option<[i64; 5]> {
        let first = self.layers[0];
        let input = &self.of.problem.steps[first].input;
        let order = match self.of.graph.operands(first)[0] {
            // A padding kernel writes NCHW.
            _ if self.of.has_explicit_padding(first) => return None,
            _ if self.is_reformatted => Order::of_layout(input, self.input).ok()?,
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

    /// Whether the weight of the convolution `layer` is passed to each run, in dense NHWC and in the tensors'
    /// type, and no other layer uses it.
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

/// The strides, as a volume, of a dense tensor of one channel that is treated as NHWC.
fn nhwc_strides_of_one_channel(shape: &[usize]) -> Option<[i64; 5]> {
    let mut strides = [1; 5];
    let spatial = shape.get(2..).filter(|spatial| spatial.len() <= 3)?;
    let mut step = 1;
    for (place, &extent) in [4, 3, 2].into_iter().zip(spatial.iter().rev()) {
        strides[place] = step;
        step *= i64::try_from(extent).ok()?;
    }
    // Axes that the shape lacks have extent 1.
    strides[2..5 - spatial.len()].fill(step);
    strides[0] = step;
    Some(strides)
}

/// A region, and the reasons for the choice of its kernels.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RegionFacts {
    /// The operators' names.
    pub layers: String,
    /// The name of the value that the region writes; empty in a chain.
    pub value: String,
    /// The row of the table that implements the region.
    pub kernels: &'static str,
    /// A description of the kernels.
    pub summary: String,
    /// The layout that the region reads; an input in any other layout is copied.
    pub reads: Layout,
    /// The layout that the region writes.
    pub writes: Layout,
    /// The configuration of the producer: tile, loader, split-K, schedule. Empty if there is nothing to
    /// configure.
    pub config: String,
    /// The kernels that the region launches in every run, in order: copies and padding of inputs, reformats,
    /// the producer, the combination of its moments, the epilogue.
    pub launches: Vec<&'static str>,
    /// The kernels that prepare the region's parameters, once for a model.
    pub preparations: Vec<&'static str>,
    /// The bytes that the region reads and writes, including parameters, each counted once.
    pub bytes: u64,
    /// The floating-point operations of its convolutions, two for each multiply-add.
    pub flop: u64,
    /// A lower bound of the run time in seconds, by the device's data sheet, without the time of a launch.
    /// `None` if the device's rates are unknown.
    pub least_s: Option<f64>,
    /// The rows that were tried, from top to bottom, without those for other kinds of layers.
    pub considered: Vec<Considered>,
}

/// A row's verdict on some layers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Considered {
    /// The operators of the layers that the row was tried on: those of the region, or more.
    pub layers: String,
    /// The name of the row.
    pub kernels: &'static str,
    /// The verdict.
    pub verdict: Verdict,
}

/// The verdict of a row of the table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// The row implements the region.
    Taken,
    /// The row could implement the region, but another row is better: the reason.
    Passed(String),
    /// The row cannot implement the region: the broken rule.
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
