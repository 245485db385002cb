//! Convolutions that write their results to their place in a concatenation.

use op_spec::Layout;
use op_spec::graph::Operand;

use super::chosen::Chosen;
use super::epilogue::{EpilogueKernels, Store};
use super::lowered::PartOf;
use super::producer::Producer;
use super::region::Query;
use crate::operators::fused::gemm::Part;

/// The alignment in bytes of pixels, and of the part of a pixel, as tensor maps need it.
const ALIGNMENT: usize = 16;

/// Lets matrix products whose results only a concatenation of channels in NHWC reads write them there. The
/// concatenation then copies its other operands only.
pub(super) fn write_in_place(query: Query<'_>, chosen: &mut [Chosen]) {
    for index in 0..chosen.len() {
        let EpilogueKernels::Rows(rows) = &chosen[index].lowered.epilogue else {
            continue;
        };
        if rows.layout != Layout::Nhwc || rows.copies.len() < 2 {
            continue;
        }
        let mut rows = rows.clone();
        let (layer, channels) = (rows.layer, rows.output[1]);
        for (operand, copied) in query.graph.operands(layer).iter().zip(&mut rows.copies) {
            let (Operand::Layer(operand), Some(copy)) = (*operand, *copied) else {
                continue;
            };
            let start = copy.target.start as usize;
            let is_aligned =
                |values: usize| (values * query.dtype.size()).is_multiple_of(ALIGNMENT);
            if !(is_aligned(channels) && is_aligned(start) && is_read_once(query, operand)) {
                continue;
            }
            let mut regions = chosen.iter_mut();
            let Some(producer) = regions.find(|region| writes_by_product(region, operand)) else {
                continue;
            };
            let part = Part { start, channels };
            let end = start + query.problem.steps[operand].output[1];
            producer.lowered.part = Some(PartOf { layer, part, end });
            *copied = None;
        }
        chosen[index].lowered.epilogue = EpilogueKernels::Rows(rows);
    }
}

/// Whether a single operand of all layers, and no output of the graph, is the layer's output.
fn is_read_once(query: Query<'_>, layer: usize) -> bool {
    let graph = query.graph;
    let operands = (0..graph.layers().len()).flat_map(|reader| graph.operands(reader));
    let reads = operands.filter(|&&operand| operand == Operand::Layer(layer));
    reads.count() == 1 && !graph.outputs().contains(&layer)
}

/// Whether the last launch of the region is a matrix product, which writes the layer's output.
fn writes_by_product(region: &Chosen, layer: usize) -> bool {
    let lowered = &region.lowered;
    let is_store = matches!(
        &lowered.epilogue,
        EpilogueKernels::Store(Store { further: None, .. })
    );
    region.layers.last() == Some(&layer)
        && matches!(lowered.producer, Producer::Gemm(_))
        && is_store
        && lowered.writes == Layout::Nhwc
}
