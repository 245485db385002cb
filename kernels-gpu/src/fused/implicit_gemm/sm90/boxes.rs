//! The boxes of an NHWC input, as a tensor map has them.

use cuda_std::tensor_map::Boxes;
use launch_config::implicit_gemm::{GemmGeometry, K_VECTOR_BYTES, K_VECTOR_VALUES};

use super::nhwc_tile::in_box_order;

/// Those of the input of an NHWC geometry, in place or reformatted, or the staged tiles of one that
/// is converted in the producer, each of whose values is two elements: along channels, columns, slices, rows
/// and samples; or rows before slices, where tiles are not of octets.
#[must_use]
pub fn boxes(g: &GemmGeometry) -> Boxes {
    let (conv, k_vectors) = (&g.conv, &g.k_vectors);
    let [columns, ..] = g.box_extents();
    let [slices, rows] = in_box_order(g, g.staged_tiles.extents);
    let [column_step, slice_step, row_step] = g.box_strides();
    let elements = g.source_width();
    let samples = u32::try_from(conv.n).unwrap_or(u32::MAX);
    let mut axes = [
        (conv.w, k_vectors.column, columns, column_step),
        (conv.d, k_vectors.slice, slices, slice_step),
        (conv.h, k_vectors.row, rows, row_step),
        (samples, k_vectors.sample, 1, 1),
    ];
    if g.strips == 0 {
        axes.swap(1, 2);
    }
    let of = |first: u32, along: fn((u32, u32, u32, u32)) -> u32| {
        let [w, second, third, n] = axes.map(along);
        [first, w, second, third, n]
    };
    Boxes {
        extents: of(g.pixel_channels() * elements, |axis| axis.0),
        // Of one index no stride matters, but a map wants one.
        strides: axes.map(|axis| u64::from(axis.1.max(1)) * u64::from(K_VECTOR_BYTES * elements)),
        reaches: of(
            k_vectors.span_k_vectors * K_VECTOR_VALUES * elements,
            |axis| (axis.2 - 1) * axis.3 + 1,
        ),
        steps: of(1, |axis| axis.3),
        is_swizzled: u32::from(!g.is_converted_in_producer()),
    }
}
