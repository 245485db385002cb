//! The boxes of the tensors of a product, for their tensor maps.

use cuda_std::tensor_map::Boxes;
use launch_config::gemm::{Gemm, LINE_VALUES};

/// Boxes of `lines` lines of a matrix of `rows` rows of `columns` values.
fn boxes([rows, columns]: [u32; 2], lines: u32) -> Boxes {
    let row = 2 * u64::from(columns);
    let all = row * u64::from(rows);
    Boxes {
        extents: [columns, rows, 1, 1, 1],
        strides: [row, all, all, all],
        reaches: [LINE_VALUES, lines, 1, 1, 1],
        steps: [1; 5],
        is_swizzled: 1,
    }
}

/// The boxes of the input, NHWC: pixels and channels.
#[must_use]
pub fn boxes_of_input(gemm: &Gemm) -> Boxes {
    let g = &gemm.geometry;
    boxes([g.pixels, g.channels], g.tile_pixels)
}

/// The boxes of the filters: filters and channels.
#[must_use]
pub fn boxes_of_filters(gemm: &Gemm) -> Boxes {
    let g = &gemm.geometry;
    boxes([g.filters, g.channels], gemm.tile.filters)
}

/// The boxes of the output and of a residual, NHWC: pixels and filters.
#[must_use]
pub fn boxes_of_output(gemm: &Gemm) -> Boxes {
    let g = &gemm.geometry;
    boxes([g.pixels, g.filters], gemm.tile.pixels)
}
