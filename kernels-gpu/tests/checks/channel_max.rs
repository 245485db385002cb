//! The maximum over channels, alone and with what comes before it.

use cuda_std::Storage;
use op_spec::InstanceNormSpec;
use op_spec::chain::{InstanceNormLayer, Layer};
use op_spec::launch::channel_max::ChannelMaxGeometry;
use op_spec::launch::elementwise::Bounds;

use super::super::kernels::channel_max::*;
use super::super::kernels::fused::clamp_multiply_channel_max::*;
use super::super::kernels::fused::instance_norm_clamp_multiply_channel_max::*;
use super::norm::{Norm, optional, statistics};
use super::{Loaded, Outcome, Run, case, compare, expected, label, rounded_once};

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

/// Plain, and clamped and multiplied.
pub(crate) fn channel_max<T: Storage>(run: &Run) -> Outcome {
    for (n, c, spatial) in SHAPES {
        let shape = [n, c, spatial];
        let plain = case::<T>([Layer::channel_max()], &shape).special();
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
        let fused = case::<T>(layers, &shape).special();
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
/// and of 0, and with and without the norm's weight and bias.
pub(crate) fn normed<T: Storage>(run: &Run) -> Outcome {
    for (n, channels, spatial) in SHAPES.into_iter().skip(1) {
        let norm = Norm {
            n,
            channels,
            groups: channels,
            spatial,
            shift: 0.5,
        };
        for affine in [false, true] {
            let layers = [
                Layer::scale("multiplier"),
                Layer::InstanceNorm(InstanceNormLayer {
                    name: "norm".into(),
                    attributes: InstanceNormSpec::default(),
                    affine,
                }),
                Layer::clamp(-1.0, 0.75),
                Layer::scale("multiplier"),
                Layer::channel_max(),
            ];
            let mut case = norm.case::<T>(layers);
            case.parameters[0][channels / 2] = 0.0;
            let Loaded { x, parameters } = run.load::<T>(&case)?;
            let partials = statistics(run, &x, norm.geometry())?;
            let g = norm.geometry().affine(affine, affine);
            let max = ChannelMaxGeometry::new(n as u64, channels as u32, spatial as u64);
            let y = run.empty::<T>(n * spatial)?;
            let arguments = (
                x.source(),
                partials.source(),
                optional(parameters.get(1)),
                optional(parameters.get(2)),
                parameters[0].source(),
                y.ptr(),
                g,
                max,
                Bounds::new(Some(-1.0), Some(0.75)),
            );
            let family = &INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_MAX;
            run.launch(family, &[label::<T>()], max.shape(), arguments)?;
            let what = format!("{norm:?} affine {affine}");
            compare(&what, &y, &expected::<T>(&case))?;
        }
    }
    Ok(())
}
