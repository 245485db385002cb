//! The depthwise convolution with moments and windows.

use cuda_std::{bf16, f16};
use op_spec::conv::ConvSpec;
use op_spec::launch::norm::COUNTED_ELEMENTS;
use op_spec::launch::stencil::StencilGeometry;

use super::super::kernels::fused::implicit_gemm::IMPLICIT_GEMM_COMBINE;
use super::super::kernels::fused::stencil::*;
use super::convolved::{convolved, wanted_moments, wanted_results};
use super::{Outcome, Run, compare, label, signed};

/// Extents of input and filter, attributes, and the pool behind it.
type Row = ([usize; 5], [usize; 5], ConvSpec<3>, Option<[u32; 2]>);

fn spec(
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    groups: usize,
) -> ConvSpec<3> {
    ConvSpec {
        stride,
        padding,
        dilation,
        groups,
    }
}

fn rows() -> [Row; 7] {
    [
        // Rows and columns that no whole window has; several blocks of a plane.
        (
            [2, 3, 1, 45, 133],
            [3, 1, 1, 3, 3],
            spec([1; 3], [0, 1, 1], [1; 3], 3),
            Some([2, 2]),
        ),
        // No padding, and so no edge; a window of four.
        (
            [1, 1, 1, 70, 50],
            [1, 1, 1, 3, 3],
            spec([1; 3], [0; 3], [1; 3], 1),
            Some([4, 4]),
        ),
        // Strides, dilation, a filter of five columns, windows of three, columns of half a warp.
        (
            [2, 2, 1, 39, 45],
            [2, 1, 1, 3, 5],
            spec([1, 2, 3], [0, 2, 3], [1, 1, 2], 2),
            Some([3, 5]),
        ),
        // A window as large as an item.
        (
            [1, 2, 1, 25, 70],
            [2, 1, 1, 1, 1],
            spec([1; 3], [0; 3], [1; 3], 2),
            Some([8, 32]),
        ),
        // Volumes: depth, padding, strides, nothing pooled.
        (
            [1, 2, 9, 10, 11],
            [2, 1, 3, 3, 3],
            spec([2, 1, 1], [1; 3], [1; 3], 2),
            None,
        ),
        // Larger ones, with items that are not at an edge.
        (
            [1, 2, 5, 29, 70],
            [2, 1, 3, 3, 3],
            spec([1; 3], [1; 3], [1; 3], 2),
            None,
        ),
        // A filter of many taps; an output of one column.
        (
            [1, 1, 1, 30, 9],
            [1, 1, 1, 17, 9],
            spec([1; 3], [0; 3], [1; 3], 1),
            None,
        ),
    ]
}

macro_rules! stencil {
    ($name:ident, $T:ident) => {
        /// All rows, from the input to combined moments.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for (number, (x_shape, w_shape, spec, pool)) in rows().into_iter().enumerate() {
                let (n, k) = (x_shape[0], w_shape[0]);
                let conv = spec
                    .problem(&x_shape, &w_shape, Some(&[k]))
                    .expect("a sound problem");
                let conv = conv.geometry().expect("a small problem");
                let g = StencilGeometry::new(&conv, pool).expect("a geometry");

                let values = signed::<$T>(1, x_shape.iter().product());
                let weight = signed::<$T>(2, w_shape.iter().product());
                let (bias, scale) = (signed::<$T>(3, k), signed::<$T>(4, k));
                let (x, w) = (run.tensor::<$T>(&values)?, run.tensor::<$T>(&weight)?);
                let (b, f) = (run.tensor::<$T>(&bias)?, run.tensor::<$T>(&scale)?);
                let pixels = conv.output_pixels() as usize;
                let windows = (g.pooled_h * g.pooled_w) as usize;
                let y = run.empty::<$T>(n * k * if pool.is_some() { windows } else { pixels })?;
                let moments = run.empty::<f32>(g.moment_elements() as usize)?;
                let combined = run.empty::<f32>(n * k * COUNTED_ELEMENTS)?;
                run.launch(
                    &STENCIL,
                    &[label::<$T>()],
                    g.shape(),
                    (
                        x.source(),
                        w.source(),
                        b.source(),
                        std::ptr::null(),
                        f.source(),
                        y.ptr(),
                        moments.ptr(),
                        g,
                    ),
                )?;
                run.launch(
                    &IMPLICIT_GEMM_COMBINE,
                    &[],
                    op_spec::launch::implicit_gemm::GemmGeometry::combine_shape((n * k) as u64),
                    (
                        moments.source(),
                        combined.ptr(),
                        (n * k) as u64,
                        u64::from(g.plane_blocks),
                    ),
                )?;

                let all = convolved(&conv, &values, &weight, &bias);
                let planes: Vec<_> = all.chunks_exact(pixels).collect();
                let rounding = f64::exp2(-23.0) * (4.0 + f64::from(conv.reduction()).sqrt());
                compare(
                    &format!("row {number}, moments"),
                    &combined,
                    &wanted_moments(&planes, rounding),
                )?;
                let pool = pool.map(|[h, w]| [h, w, g.pooled_h, g.pooled_w]);
                let wanted = wanted_results(&planes, &conv, pool, &scale, rounding);
                compare(&format!("row {number}"), &y, &wanted)?;
            }
            Ok(())
        }
    };
}

stencil!(full, f32);
stencil!(f16, f16);
stencil!(bf16, bf16);
