//! The whole of problem 79 in one launch, on volumes that it can take.

use std::ffi::c_void;

use cuda_std::{Family, Label, Storage, bf16, f16};
use op_spec::launch::LaunchShape;
use op_spec::launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    FILTER_ELEMENTS, OneLaunch3dGeometry, PAIR_PLANES, SPLIT_PLANES, warpgroup,
};
use op_spec::{ClampSpec, Conv3dSpec, InstanceNormSpec};

use super::super::kernels::fused::conv3d_multiply_instance_norm_clamp_multiply_max::*;
use super::{Failure, Outcome, Run, Tensor, Wanted, compare, signed};

const CHANNELS: usize = 3;
const FILTERS: usize = 16;
const WIDTH: usize = 32;
const OUT_WIDTH: usize = 30;

/// Samples, depth and height: the smallest; a ragged last tile; more rows than are there before the first
/// round, so that rows arrive during rounds, and more items than two blocks have warps.
const SHAPES: [(usize, usize, usize); 3] = [(1, 3, 3), (2, 5, 7), (1, 7, 30)];

/// What a case does to its input: multiplies it, adds to it, and sets one value.
const INPUTS: [Input; 4] = [
    (1.0, 0.0, None),
    (0.01, 100.0, None),
    (1.0, 0.0, Some(1e6)),
    (1.0, 0.0, Some(f32::NAN)),
];

/// Of these, what clusters run: among it a sample whose conversion is repeated, and one with a NaN.
const CLUSTERED: [(usize, usize); 4] = [(0, 0), (1, 1), (2, 2), (2, 3)];

/// `x`, rounded to `T`.
fn stored<T: Storage>(x: f32) -> f32 {
    T::from_f32(x).to_f32()
}

/// One sample of the convolution without bias, and the sums of magnitudes behind it,
/// `[filter][position]`.
fn convolved(x: &[f32], w: &[f32], depth: usize, height: usize) -> Vec<Vec<(f64, f64)>> {
    let at = |c: usize, d: usize, h: usize, q: usize| {
        f64::from(x[((c * depth + d) * height + h) * WIDTH + q])
    };
    let mut filters = Vec::new();
    for k in 0..FILTERS {
        let mut plane = Vec::new();
        for z in 0..depth - 2 {
            for p in 0..height - 2 {
                for q in 0..OUT_WIDTH {
                    let (mut sum, mut magnitude) = (0.0, 0.0);
                    for tap in 0..81 {
                        let (c, t, r, s) = (tap / 27, tap / 9 % 3, tap / 3 % 3, tap % 3);
                        let term = at(c, z + t, p + r, q + s) * f64::from(w[k * 81 + tap]);
                        sum += term;
                        magnitude += term.abs();
                    }
                    plane.push((sum, magnitude));
                }
            }
        }
        filters.push(plane);
    }
    filters
}

/// The pipeline behind the convolution. `rounding` is the relative error of a product.
fn wanted(filters: &[Vec<(f64, f64)>], multiplier: &[f32], rounding: f64) -> Vec<Wanted> {
    let positions = filters[0].len();
    let mut best = vec![Wanted::exact(f64::NEG_INFINITY); positions];
    for (plane, &m) in filters.iter().zip(multiplier) {
        let m = f64::from(m);
        let count = positions as f64;
        let mean = plane.iter().map(|y| m * y.0).sum::<f64>() / count;
        let variance = plane.iter().map(|y| (m * y.0 - mean).powi(2)).sum::<f64>() / count;
        let rstd = 1.0 / (variance + 1e-5).sqrt();
        for (best, y) in best.iter_mut().zip(plane) {
            let value = (m * y.0 - mean) * rstd;
            let value = if value.is_nan() {
                value
            } else {
                value.clamp(-1.0, 1.0) * m
            };
            // Every product is off by `rounding`, here and in the statistics.
            let tolerance = 4.0 * rounding * (m.abs() * rstd * y.1 + 1.0) * m.abs();
            best.tolerance = best.tolerance.max(tolerance);
            if value.is_nan() || value > best.value {
                best.value = value;
            }
        }
    }
    best
}

/// What an input of `INPUTS` is.
type Input = (f32, f32, Option<f32>);

/// A problem with its tensors.
struct Case<T> {
    name: String,
    values: Vec<f32>,
    weight: Vec<f32>,
    multiplier: Vec<f32>,
    g: OneLaunch3dGeometry,
    depth: usize,
    height: usize,
    tensors: [Tensor<T>; 4],
}

impl<T: Storage> Case<T> {
    /// One of `SHAPES` with one of `INPUTS`; multipliers of either sign and 0.
    fn new(
        run: &Run,
        (n, depth, height): (usize, usize, usize),
        (scale, added, special): Input,
    ) -> Result<Self, Failure> {
        let sample = CHANNELS * depth * height * WIDTH;
        let mut values = signed::<T>(1, n * sample);
        values.iter_mut().for_each(|x| {
            *x = stored::<T>(*x * scale + added);
        });
        values[sample - 1] = special.unwrap_or(values[sample - 1]);
        let weight = signed::<T>(2, FILTER_ELEMENTS as usize);
        let bias = signed::<T>(3, FILTERS);
        let mut multiplier = signed::<T>(4, FILTERS);
        multiplier[5] = 0.0;
        let (input, filters) = (
            [n, CHANNELS, depth, height, WIDTH],
            [FILTERS, CHANNELS, 3, 3, 3],
        );
        let conv = Conv3dSpec::default().problem(&input, &filters, Some(&[FILTERS]));
        let conv = conv.expect("a volume");
        let norm = InstanceNormSpec::default().problem(&conv.output_shape(), None, None);
        let clamp = ClampSpec::new(-1.0, 1.0).problem(&conv.output_shape());
        let (norm, clamp) = (
            norm.expect("planes").as_group_norm(),
            clamp.expect("bounds"),
        );
        Ok(Self {
            name: format!("{n} {depth} {height}, {special:?}"),
            g: OneLaunch3dGeometry::new(&conv, &norm, &clamp).expect("the kernel takes this shape"),
            depth,
            height,
            tensors: [
                run.tensor(&values)?,
                run.tensor(&weight)?,
                run.tensor(&bias)?,
                run.tensor(&multiplier)?,
            ],
            values,
            weight,
            multiplier,
        })
    }

    /// What a kernel makes of it.
    fn result(
        &self,
        run: &Run,
        (family, labels): Chosen,
        shape: Option<LaunchShape>,
    ) -> Result<Tensor<T>, Failure> {
        let y = run.empty::<T>(self.g.n as usize * self.g.out_elements())?;
        let [x, w, b, m] = &self.tensors;
        let arguments = (
            x.source(),
            w.source(),
            b.source(),
            m.source(),
            y.ptr(),
            self.g,
        );
        run.launch(family, &labels, shape, arguments)?;
        Ok(y)
    }

    /// Compares it with the reference.
    fn compare(&self, y: &Tensor<T>, rounding: f64) -> Outcome {
        let of_sample = |x| {
            let filters = convolved(x, &self.weight, self.depth, self.height);
            wanted(&filters, &self.multiplier, rounding)
        };
        let samples = self
            .values
            .chunks_exact(self.values.len() / self.g.n as usize);
        let all: Vec<_> = samples.flat_map(of_sample).collect();
        compare(&self.name, y, &all)
    }
}

/// A kernel by its family and labels.
type Chosen = (&'static Family<Arguments>, [Label; 2]);

/// What all of these kernels take.
type Arguments = (
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    *mut c_void,
    OneLaunch3dGeometry,
);

/// The kernel that takes this number of blocks for a sample.
fn of_warps(format: &'static str, blocks: u32) -> Chosen {
    (
        &CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX,
        [blocks.into(), format.into()],
    )
}

/// The same on warpgroups' products.
fn of_warpgroups(format: &'static str, blocks: u32) -> Chosen {
    let blocks = if blocks == 1 { "alone" } else { "cluster" };
    (
        &CONV3D_MULTIPLY_INSTANCE_NORM_CLAMP_MULTIPLY_MAX_WGMMA,
        [blocks.into(), format.into()],
    )
}

/// Refuses results that are not the same bits, as which all NaN count.
fn same_bits<T: Storage>(case: &Case<T>, blocks: u32, got: &Tensor<T>, alone: &[f64]) -> Outcome {
    let name = format!("{} by {blocks} blocks", case.name);
    for (i, (got, want)) in got.values()?.iter().zip(alone).enumerate() {
        if got.to_bits() != want.to_bits() && !(got.is_nan() && want.is_nan()) {
            return Err(Failure(format!("{name}: {i} is {got}, alone {want}")));
        }
    }
    Ok(())
}

macro_rules! fused {
    ($name:ident, $T:ident, $kernel:expr, $shape:expr, $rounding:expr, $inputs:expr) => {
        /// Every shape with every input.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for shape in SHAPES {
                for input in $inputs {
                    let case = Case::<$T>::new(run, shape, input)?;
                    let y = case.result(run, $kernel, $shape(&case.g))?;
                    case.compare(&y, $rounding)?;
                }
            }
            Ok(())
        }
    };
}

macro_rules! clustered {
    ($name:ident, $T:ident, $format:literal, $kernel:expr, $shape:expr, $blocks:expr) => {
        /// Blocks that are alone and clusters give the same bits.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for (shape, input) in CLUSTERED {
                let case = Case::<$T>::new(run, SHAPES[shape], INPUTS[input])?;
                let of =
                    |blocks| case.result(run, $kernel($format, blocks), $shape(&case.g, blocks));
                let alone = of(1)?.values()?;
                for blocks in $blocks {
                    same_bits(&case, blocks, &of(blocks)?, &alone)?;
                }
            }
            Ok(())
        }
    };
}

fn split_shape(g: &OneLaunch3dGeometry) -> Option<LaunchShape> {
    g.shape(SPLIT_PLANES, 1)
}

fn pair_shape(g: &OneLaunch3dGeometry) -> Option<LaunchShape> {
    g.shape(PAIR_PLANES, 1)
}

fused!(
    split_f32,
    f32,
    of_warps("split_f32", 1),
    split_shape,
    f64::exp2(-22.0),
    INPUTS
);
fused!(
    rounded_f32,
    f32,
    of_warps("rounded_f32", 1),
    pair_shape,
    f64::exp2(-11.0),
    INPUTS.into_iter().filter(|input| input.2 != Some(1e6))
);
fused!(
    f16,
    f16,
    of_warps("f16", 1),
    pair_shape,
    f64::exp2(-20.0),
    INPUTS.into_iter().step_by(3)
);
fused!(
    bf16,
    bf16,
    of_warps("bf16", 1),
    pair_shape,
    f64::exp2(-20.0),
    INPUTS.into_iter().step_by(3)
);
fused!(
    warpgroup_f16,
    f16,
    of_warpgroups("f16", 1),
    |g: &OneLaunch3dGeometry| warpgroup::shape(g, 1),
    f64::exp2(-20.0),
    INPUTS.into_iter().step_by(3)
);
fused!(
    warpgroup_bf16,
    bf16,
    of_warpgroups("bf16", 1),
    |g: &OneLaunch3dGeometry| warpgroup::shape(g, 1),
    f64::exp2(-20.0),
    INPUTS.into_iter().step_by(3)
);

clustered!(
    split_clusters,
    f32,
    "split_f32",
    of_warps,
    |g: &OneLaunch3dGeometry, blocks| g.shape(SPLIT_PLANES, blocks),
    [2, 4, 8]
);
clustered!(
    rounded_clusters,
    f32,
    "rounded_f32",
    of_warps,
    |g: &OneLaunch3dGeometry, blocks| g.shape(PAIR_PLANES, blocks),
    [2, 4, 8]
);
clustered!(
    warpgroup_f16_clusters,
    f16,
    "f16",
    of_warpgroups,
    warpgroup::shape,
    [warpgroup::CLUSTER_BLOCKS]
);
clustered!(
    warpgroup_bf16_clusters,
    bf16,
    "bf16",
    of_warpgroups,
    warpgroup::shape,
    [warpgroup::CLUSTER_BLOCKS]
);
