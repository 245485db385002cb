//! The depthwise convolution with moments and windows.

use cuda_std::Storage;
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::norm::COUNTED_ELEMENTS;
use op_spec::ConvSpec;
use oracle::Precision;

use super::super::kernels::fused::depthwise::*;
use super::convolved::Convolution;
use super::norm::optional;
use super::{Loaded, Outcome, Run, combine, compare, label};

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
        padding: padding.into(),
        dilation,
        groups,
        ..ConvSpec::default()
    }
}

/// Of these rows, the one without a bias.
const WITHOUT_BIAS: usize = 7;

fn rows() -> [Row; 10] {
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
        // No bias.
        (
            [1, 3, 1, 21, 40],
            [3, 1, 1, 3, 3],
            spec([1; 3], [0, 1, 1], [1; 3], 3),
            Some([2, 2]),
        ),
        // Items of which one row, or one column, is at the edge, and no more.
        (
            [1, 2, 1, 24, 64],
            [2, 1, 1, 3, 3],
            spec([1; 3], [0, 1, 1], [1; 3], 2),
            None,
        ),
        // One item, which ends where the plane does: behind its last column lanes have nothing to load.
        (
            [1, 1, 1, 10, 22],
            [1, 1, 1, 3, 3],
            spec([1; 3], [0; 3], [1; 3], 1),
            None,
        ),
    ]
}

/// All rows.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (number, ([n, c, d, h, w], [k, _, t, r, s], spec, pool)) in rows().into_iter().enumerate() {
        let convolution = match number {
            WITHOUT_BIAS => Convolution::without_bias::<T>,
            _ => Convolution::new::<T>,
        };
        let conv = convolution([n, c, k], [d, h, w], [t, r, s], spec);
        check::<T>(run, &format!("row {number}"), &conv, pool)?;
    }
    Ok(())
}

/// One, from the input to combined moments.
pub(super) fn check<T: Storage>(
    run: &Run,
    what: &str,
    conv: &Convolution,
    pool: Option<[u32; 2]>,
) -> Outcome {
    let g = DepthwiseGeometry::new(&conv.geometry, pool).expect("a geometry");
    let values = conv.values(2.0 * Precision::F32.products);
    let moments = conv.moments::<T>(&values, 1);
    let wanted = conv.results::<T>(values, pool);

    let Loaded { x, parameters } = run.load::<T>(&conv.case)?;
    let factors = conv.factors::<T>(run)?;
    let y = run.empty::<T>(wanted.shape().iter().product())?;
    let partial = run.empty::<f32>(g.moment_elements() as usize)?;
    let planes = conv.geometry.n as usize * conv.geometry.output_channels() as usize;
    let combined = run.empty::<f32>(planes * COUNTED_ELEMENTS)?;
    let arguments = (
        x.source(),
        parameters[0].source(),
        optional(parameters.get(1)),
        optional(factors.norm_weight.as_ref()),
        factors.scale.source(),
        y.ptr(),
        partial.ptr(),
        g,
    );
    run.launch(&DEPTHWISE, &[label::<T>()], g.shape(), arguments)?;
    combine::whole(run, &partial, g.plane_blocks, &combined)?;

    compare(&format!("{what}, moments"), &combined, &moments)?;
    compare(what, &y, &wanted)
}
