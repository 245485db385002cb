//! The maximum over channels, alone and with what comes before it.

use cuda_std::{bf16, f16};
use op_spec::launch::channel_max::ChannelMaxGeometry;
use op_spec::launch::elementwise::Bounds;

use super::super::kernels::channel_max::*;
use super::super::kernels::fused::clamp_multiply_channel_max::*;
use super::super::kernels::fused::instance_norm_clamp_multiply_channel_max::*;
use super::norm::{EPS, Norm, optional, statistics};
use super::{Outcome, Run, Wanted, compare, label, signed};

/// `(n, channels, spatial)`: one channel, one position, vectors and no vectors, more channels than
/// are staged at a time, a row of several splits.
const SHAPES: [(usize, usize, usize); 7] = [
    (1, 1, 1),
    (2, 7, 30),
    (3, 16, 64),
    (1, 40, 1025),
    (2, 300, 6),
    (1, 259, 8),
    (1, 2, 9000),
];

/// The largest channel at each position.
fn largest(x: &[Wanted], channels: usize, spatial: usize) -> Vec<Wanted> {
    let mut outputs = Vec::new();
    for sample in x.chunks_exact(channels * spatial) {
        for position in 0..spatial {
            let mut best = Wanted::exact(f64::NEG_INFINITY);
            for x in sample.iter().skip(position).step_by(spatial) {
                best.tolerance = best.tolerance.max(x.tolerance);
                if x.value.is_nan() || x.value > best.value {
                    best.value = x.value;
                }
            }
            outputs.push(best);
        }
    }
    outputs
}

/// `clamp(x) * multiplier`, of wanted values.
fn clamped(x: Wanted, multiplier: f32, min: f64, max: f64) -> Wanted {
    let value = if x.value.is_nan() {
        x.value
    } else {
        x.value.max(min).min(max) * f64::from(multiplier)
    };
    Wanted {
        value,
        tolerance: x.tolerance * f64::from(multiplier.abs())
            + f64::from(f32::EPSILON) * value.abs(),
    }
}

macro_rules! channel_max {
    ($name:ident, $T:ident) => {
        /// Plain, and clamped and multiplied.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for (n, c, spatial) in SHAPES {
                let mut values = signed::<$T>(1, n * c * spatial);
                for (first, special) in [(3, f32::NAN), (5, f32::INFINITY), (8, f32::NEG_INFINITY)]
                {
                    values
                        .iter_mut()
                        .skip(first)
                        .step_by(211)
                        .for_each(|x| *x = special);
                }
                let wanted: Vec<_> = values
                    .iter()
                    .map(|&x| Wanted::exact(f64::from(x)))
                    .collect();
                let g = ChannelMaxGeometry::new(n as u64, c as u32, spatial as u64);
                let (x, y) = (run.tensor::<$T>(&values)?, run.empty::<$T>(n * spatial)?);
                run.launch(
                    &CHANNEL_MAX,
                    &[label::<$T>()],
                    g.shape(),
                    (x.source(), y.ptr(), g),
                )?;
                let what = format!("{n} {c} {spatial}");
                compare(&what, &y, &largest(&wanted, c, spatial))?;

                let multiplier = signed::<$T>(2, c);
                let wanted: Vec<_> = (wanted.iter().enumerate())
                    .map(|(i, &x)| clamped(x, multiplier[i / spatial % c], -0.5, 0.75))
                    .collect();
                let (m, y) = (
                    run.tensor::<$T>(&multiplier)?,
                    run.empty::<$T>(n * spatial)?,
                );
                let bounds = Bounds::new(Some(-0.5), Some(0.75));
                let arguments = (x.source(), m.source(), y.ptr(), g, bounds);
                run.launch(
                    &CLAMP_MULTIPLY_CHANNEL_MAX,
                    &[label::<$T>()],
                    g.shape(),
                    arguments,
                )?;
                compare(
                    &format!("{what} multiplied"),
                    &y,
                    &largest(&wanted, c, spatial),
                )?;
            }
            Ok(())
        }
    };
}

channel_max!(channel_max_f32, f32);
channel_max!(channel_max_f16, f16);
channel_max!(channel_max_bf16, bf16);

macro_rules! normed {
    ($name:ident, $T:ident) => {
        /// Multiplied, normalised, clamped and multiplied again, with multipliers of either sign
        /// and of 0, and with and without the norm's weight and bias.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for (n, channels, spatial) in SHAPES.into_iter().skip(1) {
                let norm = Norm {
                    n,
                    channels,
                    groups: channels,
                    spatial,
                    shift: 0.5,
                };
                let values = norm.input::<$T>();
                let mut multiplier = signed::<$T>(2, channels);
                multiplier[channels / 2] = 0.0;
                let (weight, bias) = (signed::<$T>(3, channels), signed::<$T>(4, channels));
                let x = run.tensor::<$T>(&values)?;
                let m = run.tensor::<$T>(&multiplier)?;
                let (w, b) = (run.tensor::<$T>(&weight)?, run.tensor::<$T>(&bias)?);
                let partials = statistics(run, &x, norm.geometry())?;
                for affine in [false, true] {
                    let factor = |c: usize| if affine { f64::from(weight[c]) } else { 1.0 };
                    let wanted: Vec<_> = (values.chunks_exact(spatial).enumerate())
                        .flat_map(|(plane, x)| {
                            let c = plane % channels;
                            let added = if affine { f64::from(bias[c]) } else { 0.0 };
                            let normed = normed_plane(x, multiplier[c], factor(c), added);
                            normed.map(move |y| (c, y)).collect::<Vec<_>>()
                        })
                        .map(|(c, y)| clamped(y, multiplier[c], -1.0, 0.75))
                        .collect();
                    let g = norm.geometry().affine(affine, affine);
                    let max = ChannelMaxGeometry::new(n as u64, channels as u32, spatial as u64);
                    let y = run.empty::<$T>(n * spatial)?;
                    let arguments = (
                        x.source(),
                        partials.source(),
                        optional(&w, affine),
                        optional(&b, affine),
                        m.source(),
                        y.ptr(),
                        g,
                        max,
                        Bounds::new(Some(-1.0), Some(0.75)),
                    );
                    run.launch(
                        &INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_MAX,
                        &[label::<$T>()],
                        max.shape(),
                        arguments,
                    )?;
                    let what = format!("{norm:?} affine {affine}");
                    compare(&what, &y, &largest(&wanted, channels, spatial))?;
                }
            }
            Ok(())
        }
    };
}

normed!(normed_f32, f32);
normed!(normed_f16, f16);
normed!(normed_bf16, bf16);

/// A plane multiplied by `m`, then normalised, one step after the other.
fn normed_plane(
    plane: &[f32],
    m: f32,
    weight: f64,
    bias: f64,
) -> impl Iterator<Item = Wanted> + use<'_> {
    let multiplied = move |x: &f32| f64::from(*x) * f64::from(m);
    let count = plane.len() as f64;
    let mean = plane.iter().map(multiplied).sum::<f64>() / count;
    let magnitude = plane.iter().map(|x| multiplied(x).abs()).sum::<f64>() / count;
    let variance = plane
        .iter()
        .map(|x| (multiplied(x) - mean).powi(2))
        .sum::<f64>()
        / count;
    let rstd = 1.0 / (variance + f64::from(EPS)).sqrt();
    plane.iter().map(move |x| {
        let x = multiplied(x);
        let y = (x - mean) * rstd * weight + bias;
        let condition = rstd * weight.abs() * (x.abs() + magnitude) + y.abs() + bias.abs();
        Wanted::sum(y, 64, condition)
    })
}
