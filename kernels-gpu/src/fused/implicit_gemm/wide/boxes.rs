//! The boxes of an input of lines, as a tensor map has them.

use cuda_std::tensor_map::Boxes;
use op_spec::launch::implicit_gemm::{CELL_BYTES, CELL_VALUES, GemmGeometry};

use super::lines::in_box_order;

/// Those of the input of a geometry of lines, unpacked or packed, or the pieces of one that is rounded on its way, each of whose values is two elements: along channels, columns, slices, rows and samples; or rows before slices, where tiles are not of octets.
#[must_use]
pub fn boxes(g: &GemmGeometry) -> Boxes {
    let (conv, cells) = (&g.conv, &g.cells);
    let [columns, ..] = g.box_extents();
    let [slices, rows] = in_box_order(g, g.pieces.extents);
    let [column_step, slice_step, row_step] = g.box_steps();
    let elements = g.source_width();
    let samples = u32::try_from(conv.n).unwrap_or(u32::MAX);
    let mut axes = [
        (conv.w, cells.column, columns, column_step),
        (conv.d, cells.slice, slices, slice_step),
        (conv.h, cells.row, rows, row_step),
        (samples, cells.sample, 1, 1),
    ];
    if g.strips == 0 {
        axes.swap(1, 2);
    }
    let of = |first: u32, along: fn((u32, u32, u32, u32)) -> u32| {
        let [w, second, third, n] = axes.map(along);
        [first, w, second, third, n]
    };
    Boxes {
        extents: of(g.line_channels() * elements, |axis| axis.0),
        // Of one index no stride matters, but a map wants one.
        strides: axes.map(|axis| u64::from(axis.1.max(1)) * u64::from(CELL_BYTES * elements)),
        reaches: of(cells.line_planes * CELL_VALUES * elements, |axis| {
            (axis.2 - 1) * axis.3 + 1
        }),
        steps: of(1, |axis| axis.3),
        is_swizzled: u32::from(!g.is_rounded_on_its_way()),
    }
}
