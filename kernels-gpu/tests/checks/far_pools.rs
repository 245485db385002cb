//! Pools of tensors of more than 2^32 elements, as in `far`.

use launch_config::channel_reduction::ChannelReductionGeometry;
use launch_config::max_pool2d::{BLOCK_OUTPUTS, OUTPUTS_PER_THREAD, PoolGeometry};
use launch_config::overlapping::{self, OverlappingGeometry};
use launch_config::pool::{self, NhwcWindowGeometry, WindowGeometry, WindowResult};
use launch_config::pool_rows::{PoolRowsGeometry, SEGMENT};
use launch_config::reciprocal::Reciprocal;
use launch_config::row_reduction::{BLOCK_WARPS, PART_ELEMENTS, RowGeometry};
use op_spec::MaxPool2dSpec;

use super::super::kernels::channel_reduction::CHANNEL_REDUCTION;
use super::super::kernels::max_pool2d::MAX_POOL2D;
use super::super::kernels::pool::POOL;
use super::super::kernels::pool::nhwc::MAX_POOL_NHWC;
use super::super::kernels::pool::overlapping::MAX_POOL_OVERLAPPING;
use super::super::kernels::pool::rows::POOL_ROWS;
use super::super::kernels::reduction::ROW_REDUCTION;
use super::far::{blocks_are, far_blocks, number};
use super::{Outcome, Run, label};

/// Checks windows of images, single ones and stacks.
pub(crate) fn images(run: &Run) -> Outcome {
    let labels = [label::<f32>()];
    let [h, w] = [45_000, 46_001];
    for (extent, padding) in [(2, 0), (3, 1)] {
        let mut spec = MaxPool2dSpec::new([extent; 2]);
        spec.stride = Some([2; 2]);
        spec.padding = [padding; 2];
        let problem = spec.problem(&[3, 4, h, w]).expect("windows that fit");
        let g = PoolGeometry::of(&problem.pool).expect("planes of 2^31 elements");
        let x = run.computed::<f32>(12 * (h * w) as u64, number)?;
        let y = run.sparse::<f32>(g.outputs())?;
        let (tasks, q) = (g.plane_tasks(), u64::from(g.q));
        let blocks = far_blocks(12 * tasks, g.block_tasks.into());
        run.launch_some(
            &MAX_POOL2D,
            &labels,
            g.shape(),
            &blocks,
            (x.source(), y.ptr(), g),
        )?;
        let wanted = |index: u64| {
            let of_plane = index % (u64::from(g.p) * q);
            let plane = index / (u64::from(g.p) * q);
            let under = |first: u64, limit: usize| {
                let first = (2 * first) as i64 - padding as i64;
                (first.max(0)..(first + extent as i64).min(limit as i64)).map(|at| at as u64)
            };
            let rows = under(of_plane / q, h);
            rows.flat_map(|row| under(of_plane % q, w).map(move |column| (row, column)))
                .map(|(row, column)| number((plane * h as u64 + row) * w as u64 + column))
                .fold(f32::NEG_INFINITY, f32::max)
        };
        let rows = if !g.task.is_stack() {
            1
        } else {
            OUTPUTS_PER_THREAD as u64
        };
        assert_eq!(
            rows == 1,
            u64::from(g.block_tasks) == BLOCK_OUTPUTS as u64 && extent == 2
        );
        for block in blocks {
            let first = block * u64::from(g.block_tasks);
            for task in first..(first + u64::from(g.block_tasks)).min(12 * tasks) {
                let (plane, task) = (task / tasks, task % tasks);
                for row in (task / q * rows..u64::from(g.p)).take(rows as usize) {
                    let index = (plane * u64::from(g.p) + row) * q + task % q;
                    y.are(&format!("windows of {extent}"), index..index + 1, wanted)?;
                }
            }
        }
    }
    Ok(())
}

/// Windows of volumes.
pub(crate) fn volumes(run: &Run) -> Outcome {
    let labels = [label::<f32>()];
    // Few long planes, and many short ones.
    for (planes, input) in [(12, [11, 13_000, 14_009]), (400_000_007, [1, 4, 5])] {
        let kernel = [input[0].min(2), 3, 3];
        let output = [0, 1, 2].map(|axis| input[axis] - kernel[axis] + 1);
        let g = WindowGeometry {
            planes,
            input,
            output,
            kernel,
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
            result: WindowResult::Maximum,
            divisor: 1.0,
            columns: Reciprocal::of(1),
            slice: Reciprocal::of(1),
            near: Reciprocal::of(1),
        }
        .planned();
        let x = run.computed::<f32>(planes * g.plane_elements(), number)?;
        let total = planes * g.plane_outputs();
        let y = run.sparse::<f32>(total)?;
        let span = u64::from(pool::BLOCK_OUTPUTS);
        let blocks = far_blocks(total, span);
        run.launch_some(&POOL, &labels, g.shape(), &blocks, (x.source(), y.ptr(), g))?;
        let [_, h, w] = input.map(u64::from);
        let [z, p, q] = output.map(u64::from);
        let window = kernel.map(u64::from);
        blocks_are("volumes", &y, span, &blocks, |index| {
            let (plane, at) = (index / (z * p * q), index % (z * p * q));
            let (slice, row, column) = (at / (p * q), at / q % p, at % q);
            let first = ((plane * u64::from(input[0]) + slice) * h + row) * w + column;
            let taps = (0..window[0] * window[1] * window[2]).map(|tap| {
                let (t, r) = (tap / (window[1] * window[2]), tap / window[2] % window[1]);
                number(first + (t * h + r) * w + tap % window[2])
            });
            taps.fold(f32::NEG_INFINITY, f32::max)
        })?;
    }
    Ok(())
}

/// Checks overlapping windows of volumes, and windows of rows, where the rows of all planes are treated as
/// those of one.
pub(crate) fn overlapping(run: &Run) -> Outcome {
    let labels = [label::<f32>()];
    // Few long planes, and many short ones; many rows.
    for (planes, input, kernel, stride) in [
        (12, [11, 13_000, 14_009], [2, 3, 3], 1),
        (400_000_007, [1, 4, 5], [1, 3, 3], 1),
        (70_001, [1, 1, 70_003], [1, 1, 8], 4),
    ] {
        let stride = [1, 1, stride];
        let output = [0, 1, 2].map(|axis| (input[axis] - kernel[axis]) / stride[axis] + 1);
        let windows = WindowGeometry {
            planes,
            input,
            output,
            kernel,
            stride,
            padding: [0; 3],
            dilation: [1; 3],
            result: WindowResult::Maximum,
            divisor: 1.0,
            columns: Reciprocal::of(1),
            slice: Reciprocal::of(1),
            near: Reciprocal::of(1),
        };
        let x = run.computed::<f32>(planes * windows.plane_elements(), number)?;
        let y = run.sparse::<f32>(planes * windows.plane_outputs())?;
        let span = u64::from(overlapping::BLOCK_THREADS);
        let [_, h, w] = input.map(u64::from);
        let [z, p, q] = output.map(u64::from);
        let window = kernel.map(u64::from);
        let wanted = |index: u64| {
            let (plane, at) = (index / (z * p * q), index % (z * p * q));
            let (slice, row, column) = (at / (p * q), at / q % p, at % q);
            let column = column * u64::from(stride[2]);
            let first = ((plane * u64::from(input[0]) + slice) * h + row) * w + column;
            let taps = (0..window[0] * window[1] * window[2]).map(|tap| {
                let (t, r) = (tap / (window[1] * window[2]), tap / window[2] % window[1]);
                number(first + (t * h + r) * w + tap % window[2])
            });
            taps.fold(f32::NEG_INFINITY, f32::max)
        };
        if let Some(g) = PoolRowsGeometry::in_segments(&windows) {
            let (segments, span) = (u64::from(g.segments), u64::from(SEGMENT));
            let blocks = far_blocks(g.rows() * segments * span, span);
            let arguments = (x.source(), y.ptr(), g);
            run.launch_some(&POOL_ROWS, &labels, g.shape(), &blocks, arguments)?;
            for block in blocks {
                let (row, first) = (block / segments, block % segments * span);
                y.are(
                    "rows",
                    row * q + first..row * q + q.min(first + span),
                    wanted,
                )?;
            }
        }
        let single = OverlappingGeometry::tiled(&windows, [1, 1]);
        for g in [single, OverlappingGeometry::new(&windows).unwrap_or(single)] {
            let blocks = far_blocks(g.tiles(), span);
            let arguments = (x.source(), y.ptr(), g);
            run.launch_some(
                &MAX_POOL_OVERLAPPING,
                &labels,
                g.shape(),
                &blocks,
                arguments,
            )?;
            let [slices, rows] = g.tile.map(u64::from);
            let [depth, height, _] = g.windows.output.map(u64::from);
            for tile in blocks
                .iter()
                .flat_map(|block| block * span..(block + 1) * span)
            {
                let (plane, at) = (tile / g.plane_tiles, tile % g.plane_tiles);
                let of_slice = height.div_ceil(rows) * q;
                let (first, row) = (at / of_slice * slices, at % of_slice / q * rows);
                for slice in (first..depth).take(slices as usize) {
                    for row in (row..height).take(rows as usize) {
                        let index = ((plane * depth + slice) * height + row) * q + tile % q;
                        if plane < g.windows.planes {
                            y.are("volumes", index..index + 1, wanted)?;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Windows of channels-last images.
pub(crate) fn nhwc(run: &Run) -> Outcome {
    let [n, c, h, w] = [3, 8, 10_000, 70_001];
    let mut spec = MaxPool2dSpec::new([3; 2]);
    spec.stride = Some([2; 2]);
    let problem = spec.problem(&[n, c, h, w]).expect("windows that fit");
    let images = PoolGeometry::of(&problem.pool).expect("planes below 2^31 elements");
    let windows = WindowGeometry::of_images(&images);
    let g = NhwcWindowGeometry::new(&windows, c as u32).expect("a geometry");
    let x = run.computed::<f32>((n * c * h * w) as u64, number)?;
    let y = run.sparse::<f32>(images.outputs())?;
    let shape = g.shape();
    let last = u64::from(shape.expect("few blocks").grid[0]) - 1;
    let arguments = (x.source(), y.ptr(), g);
    run.launch_some(&MAX_POOL_NHWC, &[label::<f32>()], shape, &[last], arguments)?;
    let [c, h, w, p, q] = [
        c as u64,
        h as u64,
        w as u64,
        images.p.into(),
        images.q.into(),
    ];
    y.are(
        "channels last",
        images.outputs() - 3 * c..images.outputs(),
        |index| {
            let (pixel, channel) = (index / c, index % c);
            let (row, column) = (pixel / q, pixel % q);
            let (sample, row) = (row / p, row % p);
            let taps = (0..9).map(|tap| {
                let (row, column) = (2 * row + tap / 3, 2 * column + tap % 3);
                number(((sample * h + row) * w + column) * c + channel)
            });
            taps.fold(f32::NEG_INFINITY, f32::max)
        },
    )
}

/// Averages of rows.
pub(crate) fn rows(run: &Run) -> Outcome {
    let labels = ["mean".into(), label::<f32>()];
    // Rows of many parts with exact sums, and rows of two values.
    let g = RowGeometry {
        divisor: 1.0,
        ..RowGeometry::new(5, 1_900_000_001)
    };
    let x = run.computed::<f32>(5 * g.elements, number)?;
    let sums = run.sparse::<f32>(g.results())?;
    let last = g.results() - 1;
    let span = u64::from(BLOCK_WARPS);
    let arguments = (x.source(), sums.ptr(), g);
    run.launch_some(
        &ROW_REDUCTION,
        &labels,
        g.shape(),
        &[last / span],
        arguments,
    )?;
    sums.are("parts of rows", last..last + 1, |_| {
        let first = 4 * g.elements + (g.parts - 1) * PART_ELEMENTS;
        (first..5 * g.elements).map(number).sum()
    })?;
    let rows = 2_500_000_001;
    let g = RowGeometry::new(rows, 2);
    let x = run.computed::<f32>(2 * rows, number)?;
    let y = run.sparse::<f32>(rows)?;
    let arguments = (x.source(), y.ptr(), g);
    let blocks = far_blocks(rows, span);
    run.launch_some(&ROW_REDUCTION, &labels, g.shape(), &blocks, arguments)?;
    let average = |index| (number(2 * index) + number(2 * index + 1)) / 2.0;
    blocks_are("rows", &y, span, &blocks, average)
}

/// Maxima over channels.
pub(crate) fn channels(run: &Run) -> Outcome {
    let labels = ["max".into(), label::<f32>()];
    // Planes that are whole vectors, and not.
    for spatial in [700_000_004, 700_000_003] {
        let (n, c) = (8, 3);
        let g = ChannelReductionGeometry::new(n, c, spatial, true);
        let x = run.computed::<f32>(n * u64::from(c) * spatial, number)?;
        let y = run.sparse::<f32>(n * spatial)?;
        let launch = g.shape();
        let last = u64::from(launch.expect("few blocks").grid[0]) - 1;
        run.launch_some(
            &CHANNEL_REDUCTION,
            &labels,
            launch,
            &[last],
            (x.source(), y.ptr(), g),
        )?;
        let first = (n - 1) * spatial + (u64::from(g.tiles) - 1) * g.block_positions();
        y.are("channels", first..n * spatial, |index| {
            let (sample, position) = (index / spatial, index % spatial);
            let plane = |channel| (sample * u64::from(c) + channel) * spatial + position;
            let values = (0..u64::from(c)).map(|channel| number(plane(channel)));
            values.fold(f32::NEG_INFINITY, f32::max)
        })?;
    }
    Ok(())
}
