//! Pooling, alone and with what comes before and after it.

use cuda_std::{bf16, f16};
use op_spec::launch::elementwise::Bounds;
use op_spec::launch::max_pool2d::PoolGeometry;
use op_spec::max_pool2d::MaxPool2dSpec;

use super::super::kernels::fused::group_norm_scale_max_pool2d_clamp::*;
use super::super::kernels::fused::max_pool2d_clamp::*;
use super::super::kernels::fused::scale_max_pool2d_clamp::*;
use super::super::kernels::group_norm::*;
use super::super::kernels::max_pool2d::*;
use super::norm::{Norm, scaled, statistics};
use super::{Outcome, Run, Wanted, compare, signed};

/// `[n, c, h, w]` and attributes: kernel, stride, padding, dilation, ceil_mode.
type Row = (
    [usize; 4],
    [usize; 2],
    [usize; 2],
    [usize; 2],
    [usize; 2],
    bool,
);

const ROWS: [Row; 7] = [
    ([1, 1, 1, 1], [1, 1], [1, 1], [0, 0], [1, 1], false),
    ([2, 3, 18, 21], [4, 4], [4, 4], [0, 0], [1, 1], false),
    ([1, 2, 13, 11], [3, 3], [2, 2], [1, 1], [1, 1], false),
    ([1, 3, 17, 12], [2, 3], [3, 2], [1, 0], [2, 3], true),
    ([2, 2, 9, 10], [3, 2], [2, 3], [1, 1], [1, 2], true),
    ([3, 5, 7, 7], [7, 7], [1, 1], [0, 0], [1, 1], false),
    ([1, 1, 70, 131], [2, 3], [2, 3], [0, 0], [1, 1], false),
];

fn geometry(row: &Row) -> PoolGeometry {
    let &(shape, kernel_size, stride, padding, dilation, ceil_mode) = row;
    let mut spec = MaxPool2dSpec::new(kernel_size);
    spec.stride = Some(stride);
    spec.padding = padding;
    spec.dilation = dilation;
    spec.ceil_mode = ceil_mode;
    let problem = spec.problem(&shape).expect("a valid case");
    problem.geometry().expect("a small case")
}

/// The clamped maximum of each window. The maximum is off by no more than the worst of its window.
fn pooled(x: &[Wanted], g: &PoolGeometry, min: f64, max: f64) -> Vec<Wanted> {
    let mut outputs = Vec::new();
    for plane in x.chunks_exact((g.h * g.w) as usize) {
        for output in 0..g.p * g.q {
            let mut best = Wanted::exact(f64::NEG_INFINITY);
            for element in 0..g.r * g.s {
                let h = (output / g.q * g.stride_h + element / g.s * g.dilation_h)
                    .wrapping_sub(g.pad_h);
                let w = (output % g.q * g.stride_w + element % g.s * g.dilation_w)
                    .wrapping_sub(g.pad_w);
                if h < g.h && w < g.w {
                    let x = plane[(h * g.w + w) as usize];
                    best.tolerance = best.tolerance.max(x.tolerance);
                    if x.value.is_nan() || x.value > best.value {
                        best.value = x.value;
                    }
                }
            }
            if !best.value.is_nan() {
                best.value = best.value.max(min).min(max);
            }
            outputs.push(best);
        }
    }
    outputs
}

/// Values with NaN and both infinities among them.
fn with_specials(mut x: Vec<f32>) -> Vec<f32> {
    for (first, special) in [(3, f32::NAN), (5, f32::INFINITY), (7, f32::NEG_INFINITY)] {
        x.iter_mut()
            .skip(first)
            .step_by(89 + first)
            .for_each(|x| *x = special);
    }
    x
}

fn exact(x: &[f32]) -> Vec<Wanted> {
    x.iter().map(|&x| Wanted::exact(f64::from(x))).collect()
}

macro_rules! max_pool2d {
    ($name:ident, $T:ident, $plain:ident, $clamped:ident, $scaled:ident) => {
        /// Plain, clamped, and scaled and clamped.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for row in &ROWS {
                let g = geometry(row);
                let values = with_specials(signed::<$T>(1, row.0.iter().product()));
                let x = run.tensor::<$T>(&values)?;
                let outputs = g.outputs() as usize;

                let y = run.empty::<$T>(outputs)?;
                run.launch::<$plain>(g.shape(), (x.ptr().cast_const(), y.ptr(), g))?;
                let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
                compare(
                    &format!("{row:?}"),
                    &y,
                    &pooled(&exact(&values), &g, low, high),
                )?;

                let bounds = Bounds::new(Some(0.25), Some(0.75));
                let y = run.empty::<$T>(outputs)?;
                run.launch::<$clamped>(g.shape(), (x.ptr().cast_const(), y.ptr(), g, bounds))?;
                compare(
                    &format!("{row:?} clamped"),
                    &y,
                    &pooled(&exact(&values), &g, 0.25, 0.75),
                )?;

                let scale = signed::<$T>(2, row.0[1]);
                let plane = (g.h * g.w) as usize;
                let wanted = scaled(&exact(&values), &scale, plane);
                let (s, y) = (run.tensor::<$T>(&scale)?, run.empty::<$T>(outputs)?);
                let arguments = (
                    x.ptr().cast_const(),
                    s.ptr().cast_const(),
                    y.ptr(),
                    g,
                    bounds,
                );
                run.launch::<$scaled>(g.shape(), arguments)?;
                compare(
                    &format!("{row:?} scaled"),
                    &y,
                    &pooled(&wanted, &g, 0.25, 0.75),
                )?;
            }
            Ok(())
        }
    };
}

max_pool2d!(
    max_pool2d_f32,
    f32,
    max_pool2d_f32,
    max_pool2d_clamp_f32,
    scale_max_pool2d_clamp_f32
);
max_pool2d!(
    max_pool2d_f16,
    f16,
    max_pool2d_f16,
    max_pool2d_clamp_f16,
    scale_max_pool2d_clamp_f16
);
max_pool2d!(
    max_pool2d_bf16,
    bf16,
    max_pool2d_bf16,
    max_pool2d_clamp_bf16,
    scale_max_pool2d_clamp_bf16
);

/// Pools of normalised input: planes and groups; pools that put many planes, and so many rows, in
/// one block; a row of several splits.
const NORMED: [(Row, usize); 4] = [
    (([2, 6, 11, 13], [4, 4], [4, 4], [0, 0], [1, 1], false), 3),
    (([3, 8, 6, 5], [3, 3], [2, 2], [1, 1], [1, 1], true), 8),
    (([1, 4, 70, 67], [9, 8], [8, 8], [0, 0], [1, 1], false), 2),
    (([1, 3, 95, 97], [95, 97], [1, 1], [0, 0], [1, 1], false), 3),
];

macro_rules! normed {
    ($name:ident, $T:ident, $stats:ident, $kernel:ident) => {
        /// Normalised, scaled, pooled and clamped.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for (row, groups) in &NORMED {
                let pool = geometry(row);
                let [n, channels, h, w] = row.0;
                let norm = Norm {
                    n,
                    channels,
                    groups: *groups,
                    spatial: h * w,
                    shift: 0.5,
                };
                let values = norm.input::<$T>();
                let channel_values = [2, 3, 4].map(|seed| signed::<$T>(seed, channels));
                let [weight, bias, scale] = &channel_values;
                let wanted = norm.wanted(&values, Some(weight), Some(bias));
                let wanted = pooled(&scaled(&wanted, scale, h * w), &pool, -0.5, 1.0);

                let g = norm.geometry().affine(true, true);
                let x = run.tensor::<$T>(&values)?;
                let (weight, bias) = (run.tensor::<$T>(weight)?, run.tensor::<$T>(bias)?);
                let scale = run.tensor::<$T>(scale)?;
                let partials = statistics!(run, $stats, x, g);
                let y = run.empty::<$T>(wanted.len())?;
                let arguments = (
                    x.ptr().cast_const(),
                    partials.ptr().cast_const(),
                    weight.ptr().cast_const(),
                    bias.ptr().cast_const(),
                    scale.ptr().cast_const(),
                    y.ptr(),
                    g,
                    pool,
                    Bounds::new(Some(-0.5), Some(1.0)),
                );
                run.launch::<$kernel>(pool.norm_shape(&g), arguments)?;
                compare(&format!("{row:?} in {groups} groups"), &y, &wanted)?;
            }
            Ok(())
        }
    };
}

normed!(
    normed_f32,
    f32,
    group_norm_stats_f32,
    group_norm_scale_max_pool2d_clamp_f32
);
normed!(
    normed_f16,
    f16,
    group_norm_stats_f16,
    group_norm_scale_max_pool2d_clamp_f16
);
normed!(
    normed_bf16,
    bf16,
    group_norm_stats_bf16,
    group_norm_scale_max_pool2d_clamp_bf16
);
