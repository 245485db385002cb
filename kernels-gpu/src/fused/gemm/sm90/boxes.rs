//! The tensor maps of a matrix product.

use cuda_std::tensor_map::{Boxes, Im2col, MapElement, MapMode};
use launch_config::gemm::{AxisWindows, Gemm, GemmGeometry, Rows};

/// The elements of an operand, and those of the output and of a residual.
fn elements(g: &GemmGeometry) -> [MapElement; 2] {
    match g.element_bytes {
        2 => [MapElement::Bits16; 2],
        _ => [MapElement::Tf32, MapElement::F32],
    }
}

/// Boxes of `lines` lines of a matrix of `rows` rows of `columns` values, which are `pitch` values apart.
fn boxes(
    element: MapElement,
    [rows, columns]: [u32; 2],
    pitch: usize,
    [lines, values]: [u32; 2],
) -> Boxes {
    let row = u64::from(element.bytes()) * pitch as u64;
    let all = row * u64::from(rows);
    Boxes {
        element,
        extents: [columns, rows, 1, 1, 1],
        strides: [row, all, all, all],
        reaches: [values, lines, 1, 1, 1],
        steps: [1; 5],
        is_swizzled: 1,
    }
}

/// The map of the input, NHWC: pixels, or windows, and channels.
///
/// # Panics
/// If no tensor map can describe the product's windows; [`Gemm::new`] refuses these.
#[must_use]
pub fn map_of_input(gemm: &Gemm) -> MapMode {
    let g = &gemm.geometry;
    let conv = &g.conv;
    let [element, _] = elements(g);
    if g.rows == Rows::PIXELS {
        let tile = [g.tile_pixels, g.line_values()];
        let (rows, pitch) = ([g.pixels, g.channels()], g.channels() as usize);
        return boxes(element, rows, pitch, tile).into();
    }
    let windows = AxisWindows::of(conv).expect("windows of a tensor map");
    // Lines of an input with few channels may overlap.
    let [step, row] = match gemm.few_channels {
        Some(few) => [few.window_step, 8 * few.input.row_vectors()],
        None => [g.channels(), g.channels() * conv.w],
    };
    let bytes = u64::from(g.element_bytes);
    let [column, row] = [step, row].map(|elements| bytes * u64::from(elements));
    let slice = row * u64::from(conv.h);
    MapMode::Im2col(Im2col {
        element,
        // There are at most as many samples as pixels, so less than 2^31.
        extents: [g.channels(), conv.w, conv.h, conv.d, conv.n as u32],
        strides: [column, row, slice, slice * u64::from(conv.d)],
        lower_corner: windows.map(|of| of.corners[0]),
        upper_corner: windows.map(|of| of.corners[1]),
        steps: windows.map(|of| of.step),
        channels_per_pixel: g.stage_channels(),
        pixels_per_column: g.tile_pixels,
        is_swizzled: 1,
    })
}

/// Returns the boxes of the filters, channels last: one tap of filters, and channels.
#[must_use]
pub fn boxes_of_filters(gemm: &Gemm) -> Boxes {
    let g = &gemm.geometry;
    let taps = g.conv.taps();
    let [element, _] = elements(g);
    let tap = u64::from(g.element_bytes) * u64::from(g.channels());
    let filter = tap * u64::from(taps);
    let all = filter * u64::from(g.filters());
    Boxes {
        element,
        extents: [g.channels(), taps, g.filters(), 1, 1],
        strides: [tap, filter, all, all],
        reaches: [g.stage_channels(), 1, gemm.tile.filters, 1, 1],
        steps: [1; 5],
        is_swizzled: 1,
    }
}

/// Returns the boxes of the output or of a residual: pixels and filters. Both are NHWC, or a part of the
/// channels of an NHWC tensor; the tensor has `channels` channels.
#[must_use]
pub fn boxes_of_output(gemm: &Gemm, channels: usize) -> Boxes {
    let g = &gemm.geometry;
    let [_, element] = elements(g);
    let tile = [gemm.tile.pixels, g.line_values()];
    boxes(element, [g.pixels, g.filters()], channels, tile)
}
