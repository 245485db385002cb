//! Scale, clamp, and folding the one into a norm.

use cuda_std::{bf16, f16};
use op_spec::launch::elementwise::{Bounds, ChannelGeometry, fold_shape, shape};

use super::super::kernels::fused::fold_scale::FOLD_SCALE;
use super::super::kernels::pointwise::CLAMP;
use super::super::kernels::scale::SCALE;
use super::{Outcome, Run, Wanted, compare, label, signed};

/// `(n, channels, spatial)`: planes of one element and of a few, planes that are no whole vectors,
/// planes longer than a block, tensors that end inside a vector.
const SHAPES: [(usize, usize, usize); 6] = [
    (1, 1, 1),
    (3, 5, 1),
    (2, 7, 35),
    (1, 3, 4096),
    (2, 2, 5003),
    (1, 2, 8195),
];

macro_rules! scale {
    ($name:ident, $T:ident) => {
        /// Every shape.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for (n, c, spatial) in SHAPES {
                let len = n * c * spatial;
                let (x, scale) = (signed::<$T>(1, len), signed::<$T>(2, c));
                let wanted: Vec<_> = (0..len)
                    .map(|i| f64::from(x[i] * scale[i / spatial % c]))
                    .map(Wanted::exact)
                    .collect();
                let g = ChannelGeometry::new(n as u64, c as u32, spatial as u64);
                let (x, scale) = (run.tensor::<$T>(&x)?, run.tensor::<$T>(&scale)?);
                let y = run.empty::<$T>(len)?;
                let arguments = (x.source(), scale.source(), y.ptr(), g);
                run.launch(&SCALE, &[label::<$T>()], shape(g.elements), arguments)?;
                compare(&format!("scale {n} {c} {spatial}"), &y, &wanted)?;
                let arguments = (x.source(), scale.source(), x.ptr(), g);
                run.launch(&SCALE, &[label::<$T>()], shape(g.elements), arguments)?;
                compare(&format!("scale in place {n} {c} {spatial}"), &x, &wanted)?;
            }
            Ok(())
        }
    };
}

scale!(scale_f32, f32);
scale!(scale_f16, f16);
scale!(scale_bf16, bf16);

macro_rules! clamp {
    ($name:ident, $T:ident) => {
        /// Bounds that are there, absent and crossed; NaN and infinities.
        pub(crate) fn $name(run: &Run) -> Outcome {
            let mut x = signed::<$T>(1, 5001);
            for (i, special) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY]
                .into_iter()
                .enumerate()
            {
                x.iter_mut()
                    .skip(3 + 2 * i)
                    .step_by(97)
                    .for_each(|x| *x = special);
            }
            let all = [
                (Some(-0.25), Some(0.5)),
                (Some(0.25), None),
                (None, Some(0.25)),
                (None, None),
                (Some(0.5), Some(-0.5)),
            ];
            for (min, max) in all {
                let wanted: Vec<_> = (x.iter())
                    .map(|&x| {
                        let low = min.map_or(x, |min| if x < min { min } else { x });
                        max.map_or(low, |max| if low > max { max } else { low })
                    })
                    .map(|x| Wanted::exact(f64::from(x)))
                    .collect();
                let (from, to) = (run.tensor::<$T>(&x)?, run.empty::<$T>(x.len())?);
                let arguments = (
                    from.source(),
                    to.ptr(),
                    x.len() as u64,
                    Bounds::new(min, max),
                );
                run.launch(&CLAMP, &[label::<$T>()], shape(x.len() as u64), arguments)?;
                compare(&format!("clamp {min:?} {max:?}"), &to, &wanted)?;
            }
            Ok(())
        }
    };
}

clamp!(clamp_f32, f32);
clamp!(clamp_f16, f16);
clamp!(clamp_bf16, bf16);

macro_rules! fold {
    ($name:ident, $T:ident) => {
        /// With and without weight and bias.
        pub(crate) fn $name(run: &Run) -> Outcome {
            let channels = 131;
            let [weight, bias, scale] = [1, 2, 3].map(|seed| signed::<$T>(seed, channels));
            for (has_weight, has_bias) in [(1, 1), (1, 0), (0, 1), (0, 0)] {
                let tensors = [&weight, &bias, &scale].map(|values| run.tensor::<$T>(values));
                let [w, b, s] = tensors;
                let (w, b, s) = (w?, b?, s?);
                let (folded_w, folded_b) = (run.empty::<$T>(channels)?, run.empty::<$T>(channels)?);
                let arguments = (
                    w.source(),
                    b.source(),
                    s.source(),
                    folded_w.ptr(),
                    folded_b.ptr(),
                    channels as u32,
                    has_weight,
                    has_bias,
                );
                run.launch(
                    &FOLD_SCALE,
                    &[label::<$T>()],
                    fold_shape(channels as u32),
                    arguments,
                )?;
                let times = |values: &[f32], has: u32, absent: f32| -> Vec<Wanted> {
                    let value = |i: usize| if has == 1 { values[i] } else { absent };
                    (0..channels)
                        .map(|i| Wanted::exact(f64::from(value(i) * scale[i])))
                        .collect()
                };
                compare("folded weight", &folded_w, &times(&weight, has_weight, 1.0))?;
                compare("folded bias", &folded_b, &times(&bias, has_bias, 0.0))?;
            }
            Ok(())
        }
    };
}

fold!(fold_f32, f32);
fold!(fold_f16, f16);
fold!(fold_bf16, bf16);
