//! Windows of images and volumes.

use cuda_std::Storage;
use launch_config::KernelGeometry;
use launch_config::overlapping::{BLOCK_THREADS, OverlappingGeometry};
use launch_config::pool::{BLOCK_OUTPUTS, NhwcWindowGeometry, WindowGeometry};
use launch_config::pool_rows::PoolRowsGeometry;

use launch_config::reciprocal::Reciprocal;
use op_spec::graph::{Layer, LayerProblem};
use op_spec::{MaxPool3dSpec, PoolProblem};
use oracle::Case;

use super::super::kernels::pool::POOL;
use super::super::kernels::pool::nhwc::{AVG_POOL_NHWC, MAX_POOL_NHWC};
use super::super::kernels::pool::overlapping::{AVG_POOL_OVERLAPPING, MAX_POOL_OVERLAPPING};
use super::super::kernels::pool::rows::POOL_ROWS;
use super::{
    Loaded, Outcome, Run, Tensor, case, compare, expected, label, same_bits, same_numbers,
};

/// `[n, c, d, h, w]`, kernel, stride, padding, ceil_mode.
pub(super) type Row = ([usize; 5], [usize; 3], [usize; 3], [usize; 3], bool);

const ROWS: [Row; 23] = [
    ([1, 1, 1, 1, 1], [1; 3], [1; 3], [0; 3], false),
    ([2, 3, 4, 6, 8], [2; 3], [2; 3], [0; 3], false),
    ([1, 2, 5, 7, 9], [3; 3], [2; 3], [1; 3], false),
    ([2, 1, 7, 5, 11], [2, 3, 4], [3, 2, 3], [1, 1, 2], true),
    ([3, 2, 2, 5, 7], [2, 5, 7], [1; 3], [1, 2, 3], false),
    // Several blocks to a plane, with a partial last block.
    ([1, 2, 11, 17, 19], [2, 3, 2], [1; 3], [0, 1, 1], false),
    // Whole vectors of channels: several blocks of a sample; several blocks of channels, with a partial last
    // block; windows that reach beyond the input.
    ([2, 64, 1, 9, 17], [1, 3, 3], [1, 1, 1], [0, 1, 1], false),
    ([1, 72, 2, 5, 4], [2, 2, 2], [1, 2, 2], [1, 0, 1], true),
    ([2, 4, 3, 7, 11], [2, 3, 3], [1, 2, 3], [1, 1, 1], true),
    // Rows of all planes as rows of one plane, of several blocks; rows of separate windows.
    ([2, 3, 2, 5, 29], [1, 1, 8], [1, 1, 1], [0, 0, 4], false),
    ([1, 5, 1, 9, 23], [1, 1, 5], [1, 1, 3], [0, 0, 2], true),
    ([1, 2, 1, 13, 9], [1, 1, 2], [1, 3, 2], [0, 0, 0], false),
    // Rows of two segments, with a partial last one.
    ([1, 1, 1, 2, 1041], [1, 1, 5], [1, 1, 1], [0, 0, 2], false),
    ([1, 2, 1, 1, 3119], [1, 1, 6], [1, 1, 3], [0, 0, 3], true),
    ([2, 2, 1, 12, 10], [1, 4, 4], [1, 1, 1], [0, 1, 1], false),
    // Windows of two adjacent columns, beside padded rows and in rows of odd length.
    ([1, 2, 3, 6, 8], [2, 2, 2], [2, 2, 2], [1, 1, 0], false),
    ([2, 2, 1, 4, 7], [1, 2, 2], [1, 2, 2], [0, 0, 0], false),
    // Whole windows of two, three and four adjacent columns, and of odd and even numbers of rows.
    ([1, 2, 3, 7, 9], [2, 3, 2], [1, 2, 2], [0; 3], false),
    ([1, 1, 3, 6, 11], [3, 2, 3], [1, 2, 3], [0; 3], false),
    ([1, 2, 4, 7, 12], [2, 3, 4], [2, 2, 4], [0; 3], false),
    // Vectors of channels and windows of three columns, two apart.
    ([1, 4, 1, 7, 9], [1, 3, 3], [1, 2, 2], [0, 1, 1], false),
    // Windows that reach beyond the input behind it alone, and in front of it alone.
    ([1, 2, 1, 5, 7], [1, 2, 2], [1, 2, 2], [0, 0, 0], true),
    ([1, 2, 1, 6, 7], [1, 2, 2], [1, 2, 4], [0, 0, 1], false),
];

/// The maximum pool of a row, dilated where possible, and its average pools with every kind of divisor.
fn layers(row: &Row) -> Vec<Layer> {
    let &(input, kernel_size, stride, padding, ceil_mode) = row;
    let maximum = MaxPool3dSpec::new(kernel_size)
        .stride(stride)
        .padding(padding)
        .ceil_mode(ceil_mode);
    let average = |count_include_pad, divisor_override| {
        Layer::from(
            Layer::avg_pool3d(kernel_size)
                .stride(stride)
                .padding(padding)
                .ceil_mode(ceil_mode)
                .count_include_pad(count_include_pad)
                .divisor_override(divisor_override),
        )
    };
    let mut layers = vec![
        Layer::from(maximum),
        average(true, None),
        average(false, None),
        average(true, Some(-3)),
    ];
    for dilation in [[2, 1, 3], [1, 2, 2], [1, 3, 1]] {
        let reaches = |axis: usize| dilation[axis] * (kernel_size[axis] - 1);
        if (0..3).all(|axis| reaches(axis) < input[2 + axis] + 2 * padding[axis]) {
            layers.push(Layer::from(maximum.dilation(dilation)));
        }
    }
    layers
}

fn problem(case: &Case) -> PoolProblem {
    match case.problem().expect("a valid case").steps[0].problem {
        LayerProblem::MaxPool3d(problem) => problem.pool,
        LayerProblem::AvgPool2d(problem) => problem.pool,
        LayerProblem::AvgPool3d(problem) => problem.pool,
        LayerProblem::AdaptiveAvgPool2d(problem) => problem.pool,
        other => panic!("no pool of this kind: {other:?}"),
    }
}

/// Checks every row.
pub(crate) fn windows<T: Storage>(run: &Run) -> Outcome {
    ROWS.iter().try_for_each(|row| check_row::<T>(run, row))
}

/// Checks maxima and averages of windows, including windows of whole planes, with NaN and infinities.
pub(super) fn check_row<T: Storage>(run: &Run, row: &Row) -> Outcome {
    for layer in layers(row) {
        let case = case::<T>([layer.clone()], &row.0).special();
        let problem = problem(&case);
        let g = problem.geometry().expect("a small case");
        let Loaded { x, .. } = run.load::<T>(&case)?;
        let outputs = problem.output_shape().elements();
        let y = run.empty::<T>(outputs)?;
        let what = format!("{layer:?} of {:?}", row.0);
        let labels = [label::<T>()];
        run.launch(&POOL, &labels, g.shape(), (x.source(), y.ptr(), g))?;
        compare(&what, &y, &expected::<T>(&case))?;

        // Treats the planes as too long for a reciprocal.
        if g.plane_outputs() > BLOCK_OUTPUTS.into() {
            let mut g = g;
            g.near = Reciprocal::of(BLOCK_OUTPUTS);
            let far = run.empty::<T>(outputs)?;
            let arguments = (x.source(), far.ptr(), g);
            run.launch(&POOL, &labels, g.shape(), arguments)?;
            same_bits(&format!("{what} far"), &far, &y)?;
        }
        overlapping(run, &what, &g, &x, &y)?;
        nhwc(run, &what, &g, row.0[1], &x, &y)?;
    }
    Ok(())
}

/// Checks the numbers of `wanted` in tiles of every kind, for planes with more tiles than a reciprocal takes,
/// and in segments of rows.
fn overlapping<T: Storage>(
    run: &Run,
    what: &str,
    windows: &WindowGeometry,
    x: &Tensor<T>,
    wanted: &Tensor<T>,
) -> Outcome {
    let family = match windows.are_maxima() {
        true => &MAX_POOL_OVERLAPPING,
        false => &AVG_POOL_OVERLAPPING,
    };
    let tiles = [[1, 1], [1, 2], [2, 1], [2, 3], [3, 5], [1, 9]];
    for tile in tiles {
        let near = OverlappingGeometry::tiled(windows, tile);
        let far = OverlappingGeometry {
            near: Reciprocal::of(BLOCK_THREADS),
            ..near
        };
        let is_far = near.plane_tiles > BLOCK_THREADS.into();
        for g in [near, far].into_iter().take(1 + usize::from(is_far)) {
            let y = run.empty::<T>(wanted.len())?;
            let arguments = (x.source(), y.ptr(), g);
            run.launch(family, &[label::<T>()], g.shape(), arguments)?;
            same_numbers(&format!("{what} in tiles of {tile:?}"), &y, wanted)?;
        }
    }
    if let Some(g) = PoolRowsGeometry::in_segments(windows) {
        let y = run.empty::<T>(wanted.len())?;
        let arguments = (x.source(), y.ptr(), g);
        run.launch(&POOL_ROWS, &[label::<T>()], g.shape(), arguments)?;
        same_numbers(&format!("{what} in segments"), &y, wanted)?;
    }
    Ok(())
}

/// Checks the numbers of `wanted` for channels-last tensors, if their channels are whole vectors. Blocks take
/// one and two rounds.
pub(super) fn nhwc<T: Storage>(
    run: &Run,
    what: &str,
    windows: &WindowGeometry,
    channels: usize,
    x: &Tensor<T>,
    wanted: &Tensor<T>,
) -> Outcome {
    let Ok(mut g) = NhwcWindowGeometry::new(windows, channels as u32) else {
        assert_ne!(channels % 4, 0, "{what}: refused");
        return Ok(());
    };
    let last = |tensor| run.channels_last::<T>(tensor, g.blocks.n, g.blocks.channels);
    let (x, wanted) = (last(x)?, last(wanted)?);
    for rounds in 1..3 {
        g.blocks.block_runs = rounds * g.blocks.round_runs;
        g.blocks.sample_blocks = g.blocks.sample_runs.div_ceil(g.blocks.block_runs);
        let y = run.empty::<T>(wanted.len())?;
        let arguments = (x.source(), y.ptr(), g);
        let family = match g.windows.are_maxima() {
            true => &MAX_POOL_NHWC,
            false => &AVG_POOL_NHWC,
        };
        run.launch(family, &[label::<T>()], g.shape(), arguments)?;
        same_numbers(&format!("{what}, channels last"), &y, &wanted)?;
    }
    Ok(())
}
