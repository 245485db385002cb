//! Normalisation: statistics, the elementwise pass, and the pass fused with scale.

use cuda_std::{Storage, bf16, f16};
use op_spec::launch::elementwise::{Bounds, ROUND_ELEMENTS};
use op_spec::launch::norm::NormGeometry;
use op_spec::launch::reciprocal::Reciprocal;

use super::super::kernels::fused::group_norm_scale::*;
use super::super::kernels::fused::group_norm_scale_clamp::*;
use super::super::kernels::fused::group_norm_scale_resident::*;
use super::super::kernels::group_norm::*;
use super::{Failure, Outcome, Run, Tensor, Wanted, compare, label, same_bits, signed};

/// Longest chain of additions in the statistics of the rows checked here: sixteen elements and
/// the combinations of a thread, the five of a warp, those of eight warps, those of the splits.
const CHAIN: usize = 64;

/// A normalised tensor: `n`, channels, groups, elements of a plane, and how the input is shifted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norm {
    pub(crate) n: usize,
    pub(crate) channels: usize,
    pub(crate) groups: usize,
    pub(crate) spatial: usize,
    pub(crate) shift: f32,
}

const fn norm(n: usize, channels: usize, groups: usize, spatial: usize, shift: f32) -> Norm {
    Norm {
        n,
        channels,
        groups,
        spatial,
        shift,
    }
}

/// Rows of one element, of a few, of a warp's length, of a block's, of two and three splits; rows
/// that start anywhere in a vector; means far from zero.
pub(crate) const NORMS: [Norm; 9] = [
    norm(5, 3, 3, 1, 0.0),
    norm(3, 12, 4, 7, 0.0),
    norm(2, 6, 3, 101, 1000.0),
    norm(2, 4, 4, 1024, 0.0),
    norm(3, 3, 1, 345, 0.0),
    norm(1, 6, 2, 1367, -300.0),
    norm(2, 2, 1, 4099, 0.0),
    norm(1, 2, 2, 9001, 1000.0),
    norm(2, 3, 1, 6667, 100.0),
];

pub(crate) const EPS: f32 = 1e-5;

impl Norm {
    /// Elements of the tensor.
    pub(crate) fn len(&self) -> usize {
        self.n * self.channels * self.spatial
    }

    /// The input.
    pub(crate) fn input<T: Storage>(&self) -> Vec<f32> {
        let values = signed::<T>(1, self.len()).into_iter();
        values
            .map(|x| T::from_f32(x + self.shift).to_f32())
            .collect()
    }

    /// What kernels take.
    pub(crate) fn geometry(&self) -> NormGeometry {
        let (channels, groups) = (self.channels as u32, self.groups as u32);
        NormGeometry::new(self.n as u64, channels, groups, self.spatial as u64, EPS)
    }

    /// What comes of `x`.
    pub(crate) fn wanted(
        &self,
        x: &[f32],
        weight: Option<&[f32]>,
        bias: Option<&[f32]>,
    ) -> Vec<Wanted> {
        let row_len = self.channels / self.groups * self.spatial;
        let mut wanted = Vec::with_capacity(x.len());
        for row in x.chunks_exact(row_len) {
            let mean_of = |f: &dyn Fn(f64) -> f64| {
                row.iter().map(|&x| f(f64::from(x))).sum::<f64>() / row_len as f64
            };
            let mean = mean_of(&|x| x);
            let magnitude = mean_of(&f64::abs);
            let variance = mean_of(&|x| (x - mean) * (x - mean));
            let rstd = 1.0 / (variance + f64::from(EPS)).sqrt();
            for &x in row {
                let channel = wanted.len() / self.spatial % self.channels;
                let gamma = weight.map_or(1.0, |weight| f64::from(weight[channel]));
                let beta = bias.map_or(0.0, |bias| f64::from(bias[channel]));
                let x = f64::from(x);
                let y = (x - mean) * rstd * gamma + beta;
                let condition = rstd * gamma.abs() * (x.abs() + magnitude) + y.abs() + beta.abs();
                wanted.push(Wanted::sum(y, CHAIN, condition));
            }
        }
        wanted
    }
}

/// What the statistics kernel makes of `x`.
pub(crate) fn statistics<T: Storage>(
    run: &Run,
    x: &Tensor<T>,
    g: NormGeometry,
) -> Result<Tensor<f32>, Failure> {
    let partials = run.empty::<f32>(g.partial_elements() as usize)?;
    let arguments = (x.source(), partials.ptr(), g);
    run.launch(
        &GROUP_NORM_STATS,
        &[label::<T>()],
        g.stats_shape(),
        arguments,
    )?;
    Ok(partials)
}

macro_rules! group_norm {
    ($name:ident, $T:ident, $norms:expr) => {
        /// With and without weight and bias; alone and with a scale after it.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for norm in $norms {
                let values = norm.input::<$T>();
                let channel_values = [2, 3, 4].map(|seed| signed::<$T>(seed, norm.channels));
                let [weight, bias, scale] = &channel_values;
                let x = run.tensor::<$T>(&values)?;
                let (w, b) = (run.tensor::<$T>(weight)?, run.tensor::<$T>(bias)?);
                let s = run.tensor::<$T>(scale)?;
                let partials = statistics(run, &x, norm.geometry())?;
                for (with_weight, with_bias) in [(true, true), (false, false), (true, false)] {
                    let g = norm.geometry().affine(with_weight, with_bias);
                    let what = format!("{norm:?} {with_weight} {with_bias}");
                    let wanted = norm.wanted(
                        &values,
                        with_weight.then_some(weight),
                        with_bias.then_some(bias),
                    );
                    let (w, b) = (optional(&w, with_weight), optional(&b, with_bias));
                    let y = run.empty::<$T>(norm.len())?;
                    let (x, partials) = (x.source(), partials.source());
                    let apply = g.apply();
                    run.launch(
                        &GROUP_NORM_APPLY,
                        &[label::<$T>()],
                        apply.shape(),
                        (x, partials, w, b, y.ptr(), apply),
                    )?;
                    compare(&what, &y, &wanted)?;

                    let wanted = scaled(&wanted, scale, norm.spatial);
                    let y = run.empty::<$T>(norm.len())?;
                    let arguments = (x, partials, w, b, s.source(), y.ptr(), apply);
                    run.launch(
                        &GROUP_NORM_SCALE,
                        &[label::<$T>()],
                        apply.shape(),
                        arguments,
                    )?;
                    compare(&format!("{what} and scale"), &y, &wanted)?;
                }
            }
            Ok(())
        }
    };
}

group_norm!(group_norm_f32, f32, NORMS);
group_norm!(group_norm_f16, f16, NORMS[1..2].iter().copied());
group_norm!(group_norm_bf16, bf16, NORMS[4..5].iter().copied());

/// Planes that a vector can cross up to four of, that are whole vectors, and that no vector fits; with the elements of
/// a plane that are left of it after pooling. Vectors cross planes, rows and samples, and the last one is not whole.
const POOLED: [(Norm, usize); 8] = [
    (norm(181, 6, 3, 4, 0.0), 1),
    (norm(87, 6, 2, 3, 0.0), 2),
    (norm(75, 5, 5, 3, 10.0), 3),
    (norm(70, 6, 3, 7, 0.0), 4),
    (norm(73, 6, 1, 6, 0.0), 5),
    (norm(31, 7, 7, 25, -5.0), 25),
    (norm(5, 3, 1, 1025, 0.0), 1021),
    (norm(1, 2, 1, 9001, 0.0), 4099),
];

macro_rules! clamped {
    ($name:ident, $T:ident, $cases:expr) => {
        /// Normalised with the statistics of longer planes, scaled and clamped, by blocks of every number of rounds.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for (norm, spatial) in $cases {
                let values = norm.input::<$T>();
                let left = |index: usize| index % norm.spatial < spatial;
                let pooled: Vec<_> = (0..norm.len())
                    .filter(|&i| left(i))
                    .map(|i| values[i])
                    .collect();
                let channel_values = [2, 3, 4].map(|seed| signed::<$T>(seed, norm.channels));
                let [weight, bias, scale] = &channel_values;
                let wanted = norm.wanted(&values, Some(weight), Some(bias));
                let wanted = scaled(&wanted, scale, norm.spatial);
                let wanted: Vec<_> = (0..norm.len())
                    .filter(|&i| left(i))
                    .map(|i| Wanted {
                        value: wanted[i].value.clamp(-0.25, 0.5),
                        ..wanted[i]
                    })
                    .collect();

                let g = norm.geometry().affine(true, true);
                let (x, all) = (run.tensor::<$T>(&pooled)?, run.tensor::<$T>(&values)?);
                let (w, b) = (run.tensor::<$T>(weight)?, run.tensor::<$T>(bias)?);
                let s = run.tensor::<$T>(scale)?;
                let partials = statistics(run, &all, g)?;
                let mut first: Option<Tensor<$T>> = None;
                for (rounds, near) in [
                    (1, true),
                    (2, true),
                    (3, true),
                    (4, true),
                    (8, true),
                    (1, false),
                ] {
                    let mut geometry = g.pooled(spatial as u64);
                    geometry.block_elements = rounds * ROUND_ELEMENTS as u32;
                    // Planes are far beyond what fits here, unless what counts as far is as near as it may be.
                    if !near && spatial as u32 > geometry.block_elements {
                        geometry.near = Reciprocal::of(geometry.block_elements);
                    }
                    let y = run.empty::<$T>(pooled.len())?;
                    let arguments = (
                        x.source(),
                        partials.source(),
                        w.source(),
                        b.source(),
                        s.source(),
                        y.ptr(),
                        geometry,
                        Bounds::new(Some(-0.25), Some(0.5)),
                    );
                    run.launch(
                        &GROUP_NORM_SCALE_CLAMP,
                        &[label::<$T>()],
                        geometry.shape(),
                        arguments,
                    )?;
                    let what = format!(
                        "{norm:?} pooled to {spatial}, {rounds} rounds a block, near {near}"
                    );
                    compare(&what, &y, &wanted)?;
                    match &first {
                        Some(first) => same_bits(&what, &y, first)?,
                        None => first = Some(y),
                    }
                }
            }
            Ok(())
        }
    };
}

clamped!(clamped_f32, f32, POOLED);
clamped!(clamped_f16, f16, POOLED[4..5].iter().copied());
clamped!(clamped_bf16, bf16, POOLED[5..6].iter().copied());

/// Rows kept in shared memory: whole planes and parts of vectors, a row that fits exactly as far as
/// its vectors go, and one that does not fit.
const RESIDENT: [Norm; 3] = [
    norm(2, 4, 2, 4099, 0.0),
    norm(1, 6, 3, 1025, 1000.0),
    norm(1, 3, 1, 20_001, -10.0),
];

macro_rules! resident {
    ($name:ident, $T:ident, $norms:expr) => {
        /// With and without weight and bias, and a scale.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for norm in $norms {
                let values = norm.input::<$T>();
                let channel_values = [2, 3, 4].map(|seed| signed::<$T>(seed, norm.channels));
                let [weight, bias, scale] = &channel_values;
                let x = run.tensor::<$T>(&values)?;
                let (w, b) = (run.tensor::<$T>(weight)?, run.tensor::<$T>(bias)?);
                let s = run.tensor::<$T>(scale)?;
                for affine in [true, false] {
                    let g = norm.geometry().affine(affine, affine);
                    let wanted =
                        norm.wanted(&values, affine.then_some(weight), affine.then_some(bias));
                    let y = run.empty::<$T>(norm.len())?;
                    let arguments = (
                        x.source(),
                        optional(&w, affine),
                        optional(&b, affine),
                        s.source(),
                        y.ptr(),
                        g,
                    );
                    let shape = g.resident_launch(size_of::<$T>() as u32);
                    run.launch(
                        &GROUP_NORM_SCALE_RESIDENT,
                        &[label::<$T>()],
                        shape,
                        arguments,
                    )?;
                    let wanted = scaled(&wanted, scale, norm.spatial);
                    compare(&format!("{norm:?} affine {affine}"), &y, &wanted)?;
                }
            }
            Ok(())
        }
    };
}

resident!(resident_f32, f32, RESIDENT);
resident!(resident_f16, f16, RESIDENT[..1].iter().copied());
resident!(resident_bf16, bf16, RESIDENT[..1].iter().copied());

/// The pointer, if the tensor is to be there.
pub(crate) fn optional<T: Storage, P>(tensor: &Tensor<T>, there: bool) -> *const P {
    if there {
        tensor.source()
    } else {
        std::ptr::null()
    }
}

/// What is wanted, each channel multiplied by its scale.
pub(crate) fn scaled(wanted: &[Wanted], scale: &[f32], spatial: usize) -> Vec<Wanted> {
    let channels = scale.len();
    (wanted.iter().enumerate())
        .map(|(i, wanted)| {
            let scale = f64::from(scale[i / spatial % channels]);
            let value = wanted.value * scale;
            Wanted {
                value,
                tolerance: wanted.tolerance * scale.abs() + value.abs() * f64::from(f32::EPSILON),
            }
        })
        .collect()
}

/// Constant rows have no deviation: what comes out is the bias, to the last bit.
pub(crate) fn constant_rows_give_the_bias(run: &Run) -> Outcome {
    for norm in NORMS {
        let x = run.tensor::<f32>(&vec![1234.567; norm.len()])?;
        let bias = signed::<f32>(3, norm.channels);
        let b = run.tensor::<f32>(&bias)?;
        let g = norm.geometry().affine(false, true);
        let partials = statistics(run, &x, g)?;
        let y = run.empty::<f32>(norm.len())?;
        let arguments = (
            x.source(),
            partials.source(),
            std::ptr::null(),
            b.source(),
            y.ptr(),
            g.apply(),
        );
        run.launch(
            &GROUP_NORM_APPLY,
            &[label::<f32>()],
            g.apply().shape(),
            arguments,
        )?;
        let wanted: Vec<_> = (0..norm.len())
            .map(|i| Wanted::exact(f64::from(bias[i / norm.spatial % norm.channels])))
            .collect();
        compare(&format!("{norm:?}"), &y, &wanted)?;
    }
    Ok(())
}

/// The statistics of a row, to the last bit, in a batch of `n`.
pub(crate) fn first_row_in_a_batch_of(run: &Run, n: usize) -> Result<Vec<f64>, Failure> {
    let norm = norm(n, 4, 2, 9001, 10.0);
    let x = run.tensor::<f32>(&norm.input::<f32>())?;
    let g = norm.geometry();
    let partials = statistics(run, &x, g)?;
    let mut values = partials.values()?;
    values.truncate(2 * g.splits as usize);
    Ok(values)
}
