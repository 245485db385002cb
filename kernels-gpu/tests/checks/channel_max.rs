//! The maximum over channels, alone and with what comes before it.

use cuda_std::Storage;
use launch_config::channel_max::ChannelMaxGeometry;
use launch_config::elementwise::Bounds;
use op_spec::InstanceNormSpec;
use op_spec::graph::{InstanceNormLayer, Layer};
use oracle::Case;

use super::super::kernels::channel_max::*;
use super::super::kernels::fused::clamp_multiply_channel_max::*;
use super::super::kernels::fused::instance_norm_clamp_multiply_channel_max::*;
use super::norm::{Norm, optional, statistics};
use super::{
    Failure, Loaded, Outcome, Run, case, compare, expected, label, rounded_once, same_bits, stored,
};

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

/// Shapes of as many positions that each channel from the 225th on, some before and some behind the last that
/// are staged first, is the largest somewhere: along vectors and not.
const DECIDED: [(usize, usize, usize); 2] = [(2, 287, 31), (1, 280, 56)];

/// Makes a channel the largest of each position, the last one first, and its multiplier one that no channel
/// 256 before has.
fn decide<T: Storage>(case: &mut Case, multiplier: Option<usize>) {
    let (c, spatial) = (case.x.shape()[1], case.x.shape()[2]);
    let winner = |sample: usize, position: usize| c - 1 - (sample * spatial + position) % c;
    for (index, x) in case.x.indexed_iter_mut() {
        let k = index[1];
        *x = stored::<T>(match winner(index[0], index[2]) == k {
            true => 0.5 + (k % 61) as f32 / 256.0,
            false => -0.25,
        });
    }
    if let Some(multiplier) = multiplier {
        let all = case.parameters[multiplier].iter_mut().enumerate();
        all.for_each(|(k, m)| *m = stored::<T>(0.5 + k as f32 / 1024.0));
    }
}

/// Plain, and clamped and multiplied.
pub(crate) fn channel_max<T: Storage>(run: &Run) -> Outcome {
    let random = SHAPES.into_iter().map(|shape| (shape, false));
    let decided = DECIDED.into_iter().map(|shape| (shape, true));
    for ((n, c, spatial), is_decided) in random.chain(decided) {
        let shape = [n, c, spatial];
        let mut plain = case::<T>([Layer::channel_max()], &shape).special();
        if is_decided {
            decide::<T>(&mut plain, None);
        }
        let x = run.load::<T>(&plain)?.x;
        let g = ChannelMaxGeometry::new(n as u64, c as u32, spatial as u64);
        let y = run.empty::<T>(n * spatial)?;
        let arguments = (x.source(), y.ptr(), g);
        run.launch(&CHANNEL_MAX, &[label::<T>()], g.shape(), arguments)?;
        compare(&plain.name, &y, &rounded_once::<T>(&plain))?;

        let layers = [
            Layer::clamp(-0.5, 0.75),
            Layer::scale("multiplier"),
            Layer::channel_max(),
        ];
        let mut fused = case::<T>(layers, &shape).special();
        if is_decided {
            decide::<T>(&mut fused, Some(0));
        }
        let Loaded { x, parameters } = run.load::<T>(&fused)?;
        let y = run.empty::<T>(n * spatial)?;
        let bounds = Bounds::new(Some(-0.5), Some(0.75));
        let arguments = (x.source(), parameters[0].source(), y.ptr(), g, bounds);
        let family = &CLAMP_MULTIPLY_CHANNEL_MAX;
        run.launch(family, &[label::<T>()], g.shape(), arguments)?;
        compare(&fused.name, &y, &rounded_once::<T>(&fused))?;
    }
    Ok(())
}

/// Multiplied, normalised, clamped and multiplied again, with multipliers of either sign
/// and of 0, with and without the norm's weight and bias, and with a weight alone.
pub(crate) fn normed<T: Storage>(run: &Run) -> Outcome {
    let random = SHAPES.into_iter().skip(1).map(|shape| (shape, false));
    let decided = DECIDED.into_iter().map(|shape| (shape, true));
    for ((n, channels, spatial), is_decided) in random.chain(decided) {
        let norm = Norm {
            n,
            channels,
            groups: channels,
            spatial,
            shift: 0.5,
        };
        // A weight without a bias where that takes no time.
        let combinations = [[false; 2], [true; 2], [true, false]];
        let few = combinations
            .into_iter()
            .take(if channels == 7 { 3 } else { 2 });
        for [has_weight, has_bias] in few {
            let layers = [
                Layer::scale("multiplier"),
                Layer::InstanceNorm(InstanceNormLayer {
                    name: "norm".into(),
                    attributes: InstanceNormSpec::default(),
                    affine: has_weight,
                }),
                Layer::clamp(-1.0, 0.75),
                Layer::scale("multiplier"),
                Layer::channel_max(),
            ];
            let mut case = norm.case::<T>(layers);
            if is_decided {
                decide::<T>(&mut case, Some(0));
            }
            case.parameters[0][channels / 2] = 0.0;
            if has_weight && !has_bias {
                case.parameters[2].fill(0.0);
            }
            let Loaded { x, parameters } = run.load::<T>(&case)?;
            let partials = statistics(run, &x, norm.geometry())?;
            let g = norm.geometry().affine(has_weight, has_bias);
            let max = ChannelMaxGeometry::new(n as u64, channels as u32, spatial as u64);
            let launched = |weight, bias, g| {
                let y = run.empty::<T>(n * spatial)?;
                let arguments = (
                    x.source(),
                    partials.source(),
                    weight,
                    bias,
                    parameters[0].source(),
                    y.ptr(),
                    g,
                    max,
                    Bounds::new(Some(-1.0), Some(0.75)),
                );
                let family = &INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_MAX;
                run.launch(family, &[label::<T>()], max.shape(), arguments)?;
                Ok::<_, Failure>(y)
            };
            let [w, b] = [Some(1), has_bias.then_some(2)];
            let of = |index: Option<usize>| optional(index.and_then(|at| parameters.get(at)));
            let y = launched(of(w), of(b), g)?;
            let what = format!("{norm:?} weight {has_weight}, bias {has_bias}");
            compare(&what, &y, &expected::<T>(&case))?;
            let in_f32 = run.load::<f32>(&case)?.parameters;
            let of = |index: Option<usize>| optional(index.and_then(|at| in_f32.get(at)));
            let wide = launched(of(w), of(b), g.wide(true))?;
            same_bits(&format!("{what} in f32"), &wide, &y)?;
        }
    }
    Ok(())
}
