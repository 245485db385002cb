//! The boxes of an NHWC input and of channels-last filters, for their tensor maps.

use cuda_std::tensor_map::{Boxes, MapElement};
use launch_config::implicit_gemm::{
    ImplicitGemmGeometry, K_VECTOR_BYTES, K_VECTOR_VALUES, MMA_STEP_K_VECTORS, WARP_SPECIALIZED,
};

use super::nhwc_tile::in_box_order;

/// Returns the boxes of an NHWC geometry's input, in place or reformatted, or its staged f32 tiles. A value
/// of a staged f32 tile is two 16-bit elements. Axes are channels, columns, slices, rows and samples; in the
/// flat layout, rows come before slices. Axes of dense f32 are columns, rows, slices, channels and samples.
#[must_use]
pub fn boxes(g: &ImplicitGemmGeometry) -> Boxes {
    if g.k_vectors.loader.is_dense_f32() {
        return dense_boxes(g);
    }
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
        element: MapElement::Bits16,
        extents: of(g.pixel_channels() * elements, |axis| axis.0),
        // The stride of an axis of extent 1 does not matter, but a map needs one.
        strides: axes.map(|axis| u64::from(axis.1.max(1)) * u64::from(K_VECTOR_BYTES * elements)),
        reaches: of(
            k_vectors.span_k_vectors * K_VECTOR_VALUES * elements,
            |axis| (axis.2 - 1) * axis.3 + 1,
        ),
        steps: of(1, |axis| axis.3),
        is_swizzled: u32::from(!g.is_converted_in_producer()),
    }
}

/// Returns the boxes of dense f32.
fn dense_boxes(g: &ImplicitGemmGeometry) -> Boxes {
    let conv = &g.conv;
    let [rows, columns] = g.staged_tiles.extents;
    let row = 4 * u64::from(conv.w);
    let slice = row * u64::from(conv.h);
    let channel = slice * u64::from(conv.d);
    let channels = conv.input_channels();
    let samples = u32::try_from(conv.n).unwrap_or(u32::MAX);
    Boxes {
        element: MapElement::F32,
        extents: [conv.w, conv.h, conv.d, channels, samples],
        strides: [row, slice, channel, channel * u64::from(channels)],
        reaches: [columns, rows, 1, g.k_vector_channels, 1],
        steps: [1; 5],
        is_swizzled: 0,
    }
}

/// Returns the boxes of channels-last filters in place: channels, filters and taps, with one MMA step in a
/// box.
#[must_use]
pub fn filter_boxes(g: &ImplicitGemmGeometry) -> Boxes {
    let conv = &g.conv;
    let taps = conv.taps();
    let tap_bytes = 2 * u64::from(conv.group_c);
    let all = u64::from(conv.output_channels()) * u64::from(taps) * tap_bytes;
    Boxes {
        element: MapElement::Bits16,
        extents: [conv.group_c, conv.output_channels(), taps, 1, 1],
        strides: [u64::from(taps) * tap_bytes, tap_bytes, all, all],
        reaches: [
            MMA_STEP_K_VECTORS * K_VECTOR_VALUES,
            WARP_SPECIALIZED.filters(),
            1,
            1,
            1,
        ],
        steps: [1; 5],
        is_swizzled: 1,
    }
}
