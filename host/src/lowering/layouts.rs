//! The layouts of a graph's values.

use launch_config::depthwise::DepthwiseGeometry;
use launch_config::gemm::VECTOR_VALUES;
use op_spec::Layout;
use op_spec::graph::{NormalForm, Operand};

use super::producer::conv_geometry;
use super::region::{Query, is_both};
use super::without_norm::{matrix_product_of, pads_one_tap};

/// The layouts of a graph's values, as its regions are chosen one after the other.
pub(super) struct Layouts {
    /// The layout that a region before writes, by its last layer.
    pub(super) written: Vec<Layout>,
    /// Whether regions read NHWC, with a reformat where a value is NCHW.
    prefers_nhwc: bool,
}

/// The layout of a region's input.
#[derive(Clone, Copy)]
pub(super) struct InputLayout {
    pub(super) layout: Layout,
    /// Whether the value has another layout, so that a region that reads this one begins with a reformat.
    pub(super) is_reformatted: bool,
}

impl Layouts {
    pub(super) fn new(query: Query<'_>) -> Self {
        Self {
            written: vec![Layout::Nchw; query.graph.layers().len()],
            prefers_nhwc: prefers_nhwc(query),
        }
    }

    /// The layout of a region's input, the first operand of `layer`.
    pub(super) fn of_input(&self, query: Query<'_>, layer: usize) -> InputLayout {
        let shape = &query.problem.steps[layer].input;
        let layout = match query.graph.operands(layer)[0] {
            Operand::Input(input) => query.input_layout(input, shape),
            Operand::Layer(layer) => self.written[layer],
        };
        let is_changed = self.prefers_nhwc && layout == Layout::Nchw && shape.len() > 2;
        InputLayout {
            layout: if is_changed { Layout::Nhwc } else { layout },
            is_reformatted: is_changed && !is_both(shape),
        }
    }
}

/// Fewer convolutions keep the layout of their inputs.
const FEWEST: usize = 3;

/// Reformats pay if convolutions move at least this many times as many elements.
const LEAST_MOVED: u128 = 8;

/// Whether values inside of the graph should be NHWC, whatever the layout of its inputs: matrix products from
/// NHWC to NHWC can do at least half of the multiply-adds of its several convolutions, and the convolutions
/// move many times as many elements as the inputs and outputs that are reformatted.
fn prefers_nhwc(query: Query<'_>) -> bool {
    let (mut count, mut moved, mut by_products, mut all) = (0, 0, 0, 0);
    for (layer, step) in query.problem.steps.iter().enumerate() {
        let form = NormalForm::of_layer(step.problem);
        let conv = form.convolution.map(|(_, conv)| conv_geometry(&conv));
        let Some(Ok(conv)) = conv else { continue };
        moved += elements(&step.input) + elements(&step.output);
        // Depthwise kernels read and write both layouts.
        if DepthwiseGeometry::check(&conv).is_ok() {
            continue;
        }
        let multiply_adds =
            elements(&step.output) * u128::from(conv.group_c) * u128::from(conv.taps());
        count += 1;
        all += multiply_adds;
        let product = matrix_product_of(query, layer, &conv, (false, false));
        // Where half of a tile would be empty, implicit GEMMs also write NHWC.
        if product.is_ok_and(|gemm| !pads_one_tap(&gemm)) {
            by_products += multiply_adds;
        }
    }
    count >= FEWEST && by_products >= all.div_ceil(2) && moved >= LEAST_MOVED * reformatted(query)
}

/// The elements of the graph's inputs and outputs that are reformatted if values inside are NHWC. Copies of
/// few channels take either layout.
fn reformatted(query: Query<'_>) -> u128 {
    // The first input is not in the list.
    let inputs = (0..=query.problem.inputs.len()).map(|input| {
        let shape = query.input_shape(input);
        let is_reformatted = shape.len() > 2
            && shape[1] >= VECTOR_VALUES as usize
            && query.input_layout(input, &shape) == Layout::Nchw;
        elements(&shape) * u128::from(is_reformatted)
    });
    let outputs = query.graph.outputs().iter().enumerate();
    let outputs = outputs.map(|(index, &layer)| {
        let shape = &query.problem.steps[layer].output;
        let has_pixels = shape.iter().skip(2).any(|&extent| extent > 1);
        elements(shape) * u128::from(has_pixels && query.output_layout(index) == Layout::Nchw)
    });
    inputs.chain(outputs).sum()
}

/// The elements of a tensor of this shape.
fn elements(shape: &[usize]) -> u128 {
    shape.iter().map(|&extent| extent as u128).product()
}
