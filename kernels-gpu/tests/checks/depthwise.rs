//! The depthwise convolution with moments and windows.

use cuda_std::Storage;
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::implicit_gemm::Epilogue;
use launch_config::norm::COUNTED_ELEMENTS;
use launch_config::pointwise::Step;
use launch_config::{KernelGeometry, Presence};
use op_spec::graph::LayerProblem;
use oracle::Precision;

use super::super::kernels::fused::depthwise::*;
use super::convolved::Convolution;
use super::implicit_gemm_without_norm::folded;
use super::norm::optional;
use super::rows::{ADD, HARDSWISH, Row, SILU, rows};
use super::{Loaded, Outcome, Run, combine, compare, label, precision};

fn table() -> [Row; 10] {
    rows! {
        // Rows and columns that no whole window has; several blocks of a plane.
        [2, 3, 3], [1, 45, 133], [1, 3, 3], padding([0, 1, 1]), groups(3), pool(2, 2);
        // No padding, and so no edge; a window of four.
        [1, 1, 1], [1, 70, 50], [1, 3, 3], pool(4, 4);
        // Strides, dilation, a filter of five columns, windows of three, columns of half a warp.
        [2, 2, 2], [1, 39, 45], [1, 3, 5], stride([1, 2, 3]), padding([0, 2, 3]), dilation([1, 1, 2]), groups(2), pool(3, 5);
        // A window as large as an item.
        [1, 2, 2], [1, 25, 70], [1, 1, 1], groups(2), pool(8, 32);
        // Volumes: depth, padding, strides, nothing pooled.
        [1, 2, 2], [9, 10, 11], [3, 3, 3], stride([2, 1, 1]), padding([1; 3]), groups(2);
        // Larger ones, with items that are not at an edge.
        [1, 2, 2], [5, 29, 70], [3, 3, 3], padding([1; 3]), groups(2);
        // A filter of many taps; an output of one column.
        [1, 1, 1], [1, 30, 9], [1, 17, 9];
        // No bias.
        [1, 3, 3], [1, 21, 40], [1, 3, 3], padding([0, 1, 1]), groups(3), pool(2, 2), without_bias();
        // Items of which one row, or one column, is at the edge, and no more.
        [1, 2, 2], [1, 24, 64], [1, 3, 3], padding([0, 1, 1]), groups(2);
        // One item, which ends where the plane does: behind its last column lanes have nothing to load.
        [1, 1, 1], [1, 10, 22], [1, 3, 3];
    }
}

/// All rows.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (number, row) in table().into_iter().enumerate() {
        check::<T>(run, &format!("row {number}"), &Convolution::new::<T>(row))?;
    }
    Ok(())
}

/// Without a norm: batch norm, functions and a residual before the result is written.
pub(crate) fn without_norm<T: Storage>(run: &Run) -> Outcome {
    let table: [Row; 4] = rows! {
        [2, 3, 3], [1, 21, 45], [1, 3, 3], padding([0, 1, 1]), groups(3), batch_norm(), relu();
        [1, 2, 2], [1, 19, 33], [1, 3, 5], stride([1, 2, 1]), groups(2), batch_norm(), list(&[SILU, ADD]);
        [2, 2, 2], [5, 9, 7], [3, 3, 3], padding([1; 3]), groups(2), leaky_relu(0.25), list(&[ADD, HARDSWISH]);
        [1, 3, 3], [1, 9, 35], [1, 3, 3], groups(3), list(&[ADD]);
    };
    for (number, row) in table.into_iter().enumerate() {
        let case = row.case::<T>();
        let problem = case.problem().expect("a sound problem").steps[0].problem;
        let LayerProblem::Conv3d(conv) = problem else {
            unreachable!("a convolution of volumes")
        };
        let g = DepthwiseGeometry::new(&conv.geometry().expect("a small problem"), None);
        let g = g.expect("a geometry");
        let [gain, shift] = match row.batch_norm {
            true => folded(&case),
            false => [vec![], vec![]],
        };
        let [gain, shift] = [run.tensor::<f32>(&gain)?, run.tensor::<f32>(&shift)?];
        let function = row.function.map(|function| Step::of(&function));
        let epilogue = Epilogue {
            gain_and_shift: Presence::of(row.batch_norm),
            ..function.map_or(Epilogue::NONE, |step| {
                Epilogue::of(step).expect("a slope or a bound")
            })
        };
        let Loaded { x, parameters } = run.load::<T>(&case)?;
        let wanted = case
            .expected(&precision::<T>())
            .expect("layers that take this input");
        let y = run.empty::<T>(wanted.shape().iter().product())?;
        let arguments = (
            x.source(),
            parameters[0].source(),
            parameters[1].source(),
            gain.source(),
            shift.source(),
            optional(parameters[case.parameters.len()..].first()),
            y.ptr(),
            g,
            epilogue,
            row.residual_list(),
        );
        run.launch(&DEPTHWISE_LIST, &[label::<T>()], g.shape(), arguments)?;
        compare(&format!("row {number}"), &y, &wanted)?;
    }
    Ok(())
}

/// One, from the input to combined moments.
pub(super) fn check<T: Storage>(run: &Run, what: &str, conv: &Convolution) -> Outcome {
    let pool = conv.row.pool;
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
