//! Pooling, alone and with layers before and after it.

use cuda_std::Storage;
use launch_config::KernelGeometry;
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::PoolGeometry;
use launch_config::norm::NormGeometry;
use launch_config::pointwise::PointwiseList;
use launch_config::pool::WindowGeometry;
use launch_config::reciprocal::Reciprocal;
use op_spec::MaxPool2dSpec;
use op_spec::graph::Layer;
use oracle::data::signed;

use super::super::kernels::fused::group_norm_scale_max_pool2d_clamp::*;
use super::super::kernels::fused::group_norm_scale_pointwise::GROUP_NORM_SCALE_POINTWISE;
use super::super::kernels::fused::max_pool2d_clamp::*;
use super::super::kernels::fused::scale_max_pool2d_clamp::*;
use super::super::kernels::max_pool2d::*;
use super::norm::{EPS, statistics};
use super::{
    Loaded, Outcome, Run, case, compare, expected, label, pool, rounded_once, same_bits, stored,
};

/// `[n, c, h, w]` and attributes: kernel, stride, padding, dilation, ceil_mode.
pub(super) type Row = (
    [usize; 4],
    [usize; 2],
    [usize; 2],
    [usize; 2],
    [usize; 2],
    bool,
);

const ROWS: [Row; 19] = [
    ([1, 1, 1, 1], [1, 1], [1, 1], [0, 0], [1, 1], false),
    ([2, 3, 18, 21], [4, 4], [4, 4], [0, 0], [1, 1], false),
    ([1, 2, 13, 11], [3, 3], [2, 2], [1, 1], [1, 1], false),
    ([1, 3, 17, 12], [2, 3], [3, 2], [1, 0], [2, 3], true),
    ([2, 2, 9, 10], [3, 2], [2, 3], [1, 1], [1, 2], true),
    ([3, 5, 7, 7], [7, 7], [1, 1], [0, 0], [1, 1], false),
    ([1, 1, 70, 131], [2, 3], [2, 3], [0, 0], [1, 1], false),
    // All input rows, or all columns, lie in the gaps of a window, which then has no input element.
    ([2, 3, 5, 9], [2, 2], [1, 1], [1, 0], [6, 1], false),
    ([1, 3, 9, 3], [2, 2], [1, 1], [0, 1], [1, 4], true),
    // Stacks: padding on no, one or both sides, overlapping and separate columns, windows that begin in the
    // last row or column, planes of one column, planes that share blocks.
    ([1, 3, 8, 9], [3, 3], [2, 2], [1, 1], [1, 1], true),
    ([1, 2, 10, 7], [3, 3], [2, 3], [0, 1], [1, 1], true),
    ([1, 1, 14, 1], [3, 3], [2, 1], [1, 1], [1, 1], false),
    ([5, 4, 9, 8], [3, 3], [2, 1], [0, 0], [1, 1], false),
    ([2, 3, 37, 41], [3, 3], [2, 2], [1, 1], [1, 1], false),
    ([3, 1, 70, 131], [3, 3], [2, 2], [1, 1], [1, 1], false),
    // No stacks, because of the dilation alone: the nearest row or column of the input may be in no window.
    ([2, 3, 12, 9], [3, 3], [2, 1], [1, 1], [1, 2], false),
    ([2, 2, 19, 9], [3, 3], [2, 2], [1, 1], [2, 1], false),
    // Whole vectors of channels, with stacks and without; windows of padding alone.
    ([2, 12, 11, 21], [3, 3], [2, 2], [1, 1], [1, 1], true),
    ([2, 8, 5, 9], [2, 2], [1, 1], [1, 0], [6, 1], false),
];

/// Checks stacks of every extent up to two windows beyond the least, with every supported padding and stride.
/// Among them are windows that begin in or beside the last column or row, and windows that reach beyond the
/// input.
pub(crate) fn stacks(run: &Run) -> Outcome {
    let mut count = 0;
    for number in 0..7 * 5 * 2 * 3 * 2 {
        let mut left = number;
        let mut next = |count: usize| {
            let value = left % count;
            left /= count;
            value
        };
        let [w, h] = [1 + next(7), 7 + next(5)];
        let (padding, stride, ceil_mode) = (next(2), 1 + next(3), next(2) == 1);
        let row = (
            [1, 1, h, w],
            [3, 3],
            [2, stride],
            [1 - padding, padding],
            [1, 1],
            ceil_mode,
        );
        let Ok(problem) = spec(&row).problem(&row.0) else {
            continue;
        };
        let g = problem.geometry().expect("a small case");
        if !g.task.is_stack() {
            continue;
        }
        count += 1;
        let case = case::<f32>([Layer::from(spec(&row))], &row.0);
        let x = run.load::<f32>(&case)?.x;
        let y = run.empty::<f32>(g.outputs() as usize)?;
        let arguments = (x.source(), y.ptr(), g);
        run.launch(&MAX_POOL2D, &[label::<f32>()], g.shape(), arguments)?;
        compare(&format!("{row:?}"), &y, &rounded_once::<f32>(&case))?;
    }
    assert!(count > 200, "{count} stacks");
    Ok(())
}

/// The pool of a row.
fn spec(row: &Row) -> MaxPool2dSpec {
    let &(_, kernel_size, stride, padding, dilation, ceil_mode) = row;
    let mut spec = MaxPool2dSpec::new(kernel_size);
    spec.stride = Some(stride);
    spec.padding = padding;
    spec.dilation = dilation;
    spec.ceil_mode = ceil_mode;
    spec
}

fn geometry(row: &Row) -> PoolGeometry {
    let problem = spec(row).problem(&row.0).expect("a valid case");
    problem.geometry().expect("a small case")
}

/// Checks every row.
pub(crate) fn max_pool2d<T: Storage>(run: &Run) -> Outcome {
    ROWS.iter().try_for_each(|row| check_row::<T>(run, row))
}

/// Checks pools alone, with a clamp, and with a scale and a clamp.
pub(super) fn check_row<T: Storage>(run: &Run, row: &Row) -> Outcome {
    let labels = [label::<T>()];
    let g = geometry(row);
    let (pool, clamp) = (Layer::from(spec(row)), Layer::clamp(0.25, 0.75));
    let scale = Layer::from(Layer::scale("scale"));
    let special = |layers: &[Layer]| case::<T>(layers.to_vec(), &row.0).special();
    let plain = special(std::slice::from_ref(&pool));
    let clamped = special(&[pool.clone(), clamp.clone()]);
    let mut scaled = [
        special(&[scale.clone(), pool.clone(), clamp]),
        special(&[scale, pool]),
    ];
    for case in &mut scaled {
        // The first channel's smallest element decides the maximum. The third channel's extremes do not:
        // zero times infinity is NaN.
        let specials = (case.parameters[0].iter_mut()).zip([-0.75, 0.0, f32::INFINITY]);
        specials.for_each(|(scale, special)| *scale = special);
    }
    let x = run.load::<T>(&plain)?.x;
    let outputs = g.outputs() as usize;

    let y = run.empty::<T>(outputs)?;
    run.launch(&MAX_POOL2D, &labels, g.shape(), (x.source(), y.ptr(), g))?;
    compare(&format!("{row:?}"), &y, &rounded_once::<T>(&plain))?;
    let windows = WindowGeometry::of_images(&g);
    pool::nhwc(run, &format!("{row:?}"), &windows, row.0[1], &x, &y)?;

    // Treats the planes as too long for a reciprocal.
    if g.plane_tasks() > g.block_tasks.into() {
        let mut g = g;
        g.near = Reciprocal::of(g.block_tasks);
        let far = run.empty::<T>(outputs)?;
        let arguments = (x.source(), far.ptr(), g);
        run.launch(&MAX_POOL2D, &labels, g.shape(), arguments)?;
        same_bits(&format!("{row:?} far"), &far, &y)?;
    }

    let bounds = Bounds::new(Some(0.25), Some(0.75));
    let y = run.empty::<T>(outputs)?;
    let arguments = (x.source(), y.ptr(), g, bounds);
    run.launch(&MAX_POOL2D_CLAMP, &labels, g.shape(), arguments)?;
    compare(
        &format!("{row:?} clamped"),
        &y,
        &rounded_once::<T>(&clamped),
    )?;

    for (scaled, bounds) in scaled.iter().zip([bounds, Bounds::new(None, None)]) {
        let Loaded { x, parameters } = run.load::<T>(scaled)?;
        let y = run.empty::<T>(outputs)?;
        let arguments = (x.source(), parameters[0].source(), y.ptr(), g, bounds);
        run.launch(&SCALE_MAX_POOL2D_CLAMP, &labels, g.shape(), arguments)?;
        compare(&format!("{row:?} scaled"), &y, &rounded_once::<T>(scaled))?;
    }
    Ok(())
}

/// Pools of normalised input: norms of planes and of groups; pools with many planes, and so many rows, in one
/// block; rows of several splits; stacks.
const NORMED: [(Row, usize); 7] = [
    (([2, 6, 15, 13], [3, 3], [2, 2], [1, 1], [1, 1], false), 3),
    (([1, 2, 71, 67], [3, 3], [2, 2], [1, 1], [1, 1], false), 1),
    (([2, 6, 11, 13], [4, 4], [4, 4], [0, 0], [1, 1], false), 3),
    (([3, 8, 6, 5], [3, 3], [2, 2], [1, 1], [1, 1], true), 8),
    (([1, 4, 70, 67], [9, 8], [8, 8], [0, 0], [1, 1], false), 2),
    (([1, 3, 95, 97], [95, 97], [1, 1], [0, 0], [1, 1], false), 3),
    (([2, 6, 15, 13], [2, 2], [1, 1], [0, 1], [1, 14], false), 3),
];

/// Checks every row.
pub(crate) fn normed<T: Storage>(run: &Run) -> Outcome {
    let mut rows = NORMED.iter();
    rows.try_for_each(|(row, groups)| check_normed::<T>(run, row, *groups))
}

/// Checks a pool between a norm with a scale and a clamp.
pub(super) fn check_normed<T: Storage>(run: &Run, row: &Row, groups: usize) -> Outcome {
    let layers = [
        Layer::from(Layer::group_norm("norm", groups)),
        Layer::from(Layer::scale("scale")),
        Layer::from(spec(row)),
        Layer::clamp(-0.5, 1.0),
    ];
    let case = case::<T>(layers, &row.0).shifted(0.5).rounded(stored::<T>);
    let Loaded { x, parameters } = run.load::<T>(&case)?;
    let [n, channels, h, w] = row.0;
    let (groups_of, spatial) = (groups as u32, (h * w) as u64);
    let g = NormGeometry::new(n as u64, channels as u32, groups_of, spatial, EPS);
    let g = g.affine(true, true);
    let pool = geometry(row);
    let partials = statistics(run, &x, g)?;
    let y = run.empty::<T>(pool.outputs() as usize)?;
    let [weight, bias, scale] = [0, 1, 2].map(|index| parameters[index].source());
    let arguments = (
        x.source(),
        partials.source(),
        weight,
        bias,
        scale,
        y.ptr(),
        g,
        pool,
        Bounds::new(Some(-0.5), Some(1.0)),
    );
    let (family, shape) = (&GROUP_NORM_SCALE_MAX_POOL2D_CLAMP, pool.norm_shape(&g));
    run.launch(family, &[label::<T>()], shape, arguments)?;
    let what = format!("{row:?} in {groups} groups");
    compare(&what, &y, &expected::<T>(&case))?;
    Ok(())
}

/// Checks that extremes give the bits of a pool over mapped elements: with weights and scales of either sign,
/// zero and non-finite, rows without deviation, and infinite elements.
pub(crate) fn extremes_decide_what_all_elements_would(run: &Run) -> Outcome {
    let specials = [
        0.5,
        -0.75,
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -1e-30,
    ];
    // The last windows lie around all rows and have no element.
    let windows = [
        ([3, 3], [2, 2], [1, 1], [1, 1]),
        ([2, 3], [2, 1], [1, 0], [1, 1]),
        ([2, 2], [1, 1], [1, 0], [10, 1]),
    ];
    for (kernel_size, stride, padding, dilation) in windows {
        let shape = [3, specials.len() * specials.len(), 9, 7];
        let pool = geometry(&(shape, kernel_size, stride, padding, dilation, false));
        let [n, channels, h, w] = shape;
        let mut values: Vec<f32> = signed(1, &shape).into_iter().collect();
        // The second sample's rows are constant except for elements too near to be told apart. The third's
        // begin with infinity.
        let sample = channels * h * w;
        values[sample..2 * sample].fill(0.25);
        values[sample..2 * sample]
            .iter_mut()
            .skip(5)
            .step_by(11)
            .for_each(|x| *x += 1e-7);
        values[2 * sample..]
            .iter_mut()
            .step_by(h * w)
            .for_each(|x| *x = f32::INFINITY);
        values[2 * sample + 1..]
            .iter_mut()
            .step_by(2 * h * w)
            .for_each(|x| *x = 3e38);
        let x = run.tensor::<f32>(&values)?;
        let of = |index: fn(usize) -> usize| -> Vec<f32> {
            (0..channels)
                .map(|channel| specials[index(channel) % specials.len()])
                .collect()
        };
        let weight = run.tensor::<f32>(&of(|channel| channel))?;
        let scale = run.tensor::<f32>(&of(|channel| channel / 8))?;
        let bias = run.tensor::<f32>(&of(|channel| channel / 3))?;
        let g = NormGeometry::new(
            n as u64,
            channels as u32,
            channels as u32,
            (h * w) as u64,
            0.0,
        )
        .affine(true, true);
        let partials = statistics(run, &x, g)?;
        let bounds = Bounds::new(Some(-2.0), None);
        let parameters = (weight.source(), bias.source(), scale.source());
        let (weight, bias, scale) = parameters;
        let (input, partials) = (x.source(), partials.source());

        let mapped = run.empty::<f32>(values.len())?;
        let apply = g.apply(4);
        let (before, list) = (std::ptr::null(), PointwiseList::EMPTY);
        let output = mapped.ptr();
        let arguments = (
            input, partials, before, weight, bias, scale, output, apply, list,
        );
        run.launch(
            &GROUP_NORM_SCALE_POINTWISE,
            &[label::<f32>()],
            apply.shape(),
            arguments,
        )?;
        let wanted = run.empty::<f32>(pool.outputs() as usize)?;
        let arguments = (mapped.source(), wanted.ptr(), pool, bounds);
        run.launch(
            &MAX_POOL2D_CLAMP,
            &[label::<f32>()],
            pool.shape(),
            arguments,
        )?;

        let y = run.empty::<f32>(pool.outputs() as usize)?;
        let arguments = (
            input,
            partials,
            weight,
            bias,
            scale,
            y.ptr(),
            g,
            pool,
            bounds,
        );
        run.launch(
            &GROUP_NORM_SCALE_MAX_POOL2D_CLAMP,
            &[label::<f32>()],
            pool.norm_shape(&g),
            arguments,
        )?;
        same_bits(&format!("windows of {kernel_size:?}"), &y, &wanted)?;
    }
    Ok(())
}
