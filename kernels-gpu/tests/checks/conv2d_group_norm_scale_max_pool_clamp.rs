//! The whole of problem 85 in one launch, on images that it can take.

use cuda_std::{Label, Storage, bf16, f16};
use op_spec::launch::conv2d_group_norm_scale_max_pool_clamp::{
    CHANNEL_FLOATS, CONV_WIDTH, FILTER, FILTER_ELEMENTS, IN_CHANNELS, OUT_CHANNELS, OUT_WIDTH,
    OneLaunch2dConfig, OneLaunch2dGeometry, POOL, WIDTH,
};
use op_spec::{ClampSpec, Conv2dSpec, GroupNormSpec, MaxPool2dSpec};

use super::super::kernels::fused::conv2d_group_norm_scale_max_pool_clamp::*;
use super::{Failure, Outcome, Run, Tensor, Wanted, compare, same_bits, signed};

const INPUTS: usize = IN_CHANNELS as usize;
const OUTPUTS: usize = OUT_CHANNELS as usize;
const COLUMNS: usize = CONV_WIDTH as usize;

/// An image: samples, height, what the input is multiplied with and what is added to it, and what
/// one row of it is multiplied with besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    n: usize,
    height: usize,
    scale: f32,
    added: f32,
    /// Makes the kernels choose another power of two for the input on the way.
    loud_row: Option<usize>,
    /// Puts a NaN in the second sample and an infinity in the third.
    poisoned: bool,
}

const fn image(n: usize, height: usize) -> Image {
    Image {
        n,
        height,
        scale: 1.0,
        added: 0.0,
        loud_row: None,
        poisoned: false,
    }
}

/// The smallest image, in a batch of which a cluster has three samples; a ring of slots that is used more than once, with
/// rows that the pooling leaves over, far from zero; a row that does not fit the first rows' scale.
const IMAGES: [Image; 3] = [
    image(5, 10),
    Image {
        added: 100.0,
        ..image(1, 53)
    },
    Image {
        loud_row: Some(9),
        ..image(1, 25)
    },
];

/// For comparisons of kernels alone: NaN and infinity, each in a sample of its own, and a row that is
/// too loud in all of them.
const POISONED: Image = Image {
    poisoned: true,
    loud_row: Some(13),
    ..image(4, 18)
};

/// Sums of the convolution with the magnitudes behind them, `[filter][row * COLUMNS + column]`.
fn convolved(x: &[f32], w: &[f32], bias: &[f32], height: usize) -> Vec<Vec<(f64, f64)>> {
    let (width, filter) = (WIDTH as usize, FILTER as usize);
    let rows = height - filter + 1;
    let mut filters = Vec::new();
    for (k, &bias) in bias.iter().enumerate() {
        let mut plane = vec![(f64::from(bias), f64::from(bias.abs())); rows * COLUMNS];
        for (tap, &weight) in w[k * FILTER_ELEMENTS as usize..][..FILTER_ELEMENTS as usize]
            .iter()
            .enumerate()
        {
            let (c, r, s) = (tap / filter / filter, tap / filter % filter, tap % filter);
            let weight = f64::from(weight);
            for (row, sums) in plane.chunks_exact_mut(COLUMNS).enumerate() {
                let pixels = &x[(c * height + row + r) * width + s..][..COLUMNS];
                for (sum, &pixel) in sums.iter_mut().zip(pixels) {
                    let term = weight * f64::from(pixel);
                    sum.0 += term;
                    sum.1 += term.abs();
                }
            }
        }
        filters.push(plane);
    }
    filters
}

/// What comes behind the convolution. `rounding` is the relative error of a product.
fn wanted(
    filters: &[Vec<(f64, f64)>],
    [weight, bias, scale]: [&[f32]; 3],
    g: &OneLaunch2dGeometry,
    rounding: f64,
) -> Vec<Wanted> {
    let group = g.group_channels as usize;
    let pool = POOL as usize;
    let mut wanted = Vec::new();
    for (k, plane) in filters.iter().enumerate() {
        let members = filters[k / group * group..][..group].iter().flatten();
        let count = (group * plane.len()) as f64;
        let mean = members.clone().map(|y| y.0).sum::<f64>() / count;
        let variance = members.clone().map(|y| (y.0 - mean).powi(2)).sum::<f64>() / count;
        let magnitude = members.map(|y| y.1).sum::<f64>() / count;
        let rstd = 1.0 / (variance + f64::from(g.eps)).sqrt();
        let [weight, bias, scale] = [weight, bias, scale].map(|of| f64::from(of[k]));
        let factor = weight * scale;
        for row in 0..plane.len() / COLUMNS / pool {
            for column in 0..OUT_WIDTH as usize {
                let mut value = f64::NEG_INFINITY;
                let mut most = 0.0_f64;
                for i in 0..pool * pool {
                    let at = (row * pool + i / pool) * COLUMNS + column * pool + i % pool;
                    let y = plane[at];
                    value = value.max((y.0 - mean) * rstd * factor + bias * scale);
                    most = most.max(y.1);
                }
                // Every product is off by `rounding`, here and in both statistics.
                let condition = rstd * factor.abs() * (most + magnitude) * 2.0;
                let epsilon = f64::from(f32::EPSILON);
                wanted.push(Wanted {
                    value: value.clamp(f64::from(g.min), f64::from(g.max)),
                    tolerance: 4.0 * rounding * condition
                        + 4.0 * epsilon * (bias * scale).abs()
                        + epsilon,
                });
            }
        }
    }
    wanted
}

/// An image with parameters, of either sign and 0.
struct Case {
    values: Vec<f32>,
    filter: Vec<f32>,
    filter_bias: Vec<f32>,
    norm: [Vec<f32>; 3],
    outputs: usize,
    g: OneLaunch2dGeometry,
}

impl Case {
    fn new<T: Storage>(image: Image) -> Self {
        let Image { n, height, .. } = image;
        let row = WIDTH as usize;
        let sample = INPUTS * height * row;
        let mut values = signed::<T>(1, n * sample);
        for (i, x) in values.iter_mut().enumerate() {
            let loud = Some(i / row % height) == image.loud_row;
            let loud = if loud { 1024.0 } else { 1.0 };
            *x = T::from_f32(*x * image.scale * loud + image.added).to_f32();
        }
        if image.poisoned {
            values[sample + 5 * row + 17] = f32::NAN;
            values[2 * sample + 11 * row + 99] = f32::INFINITY;
        }
        let [filter_bias, bias, mut weight, mut scale] =
            [3, 4, 5, 6].map(|seed| signed::<T>(seed, OUTPUTS));
        weight[7] = 0.0;
        scale[20] = 0.0;
        let (filters, vector) = ([OUTPUTS, INPUTS, 3, 3], [OUTPUTS]);
        let conv =
            Conv2dSpec::default().problem(&[n, INPUTS, height, row], &filters, Some(&vector));
        let conv = conv.expect("an image");
        let convolved = conv.output_shape();
        let norm = GroupNormSpec::new(16).problem(&convolved, Some(&vector), Some(&vector));
        let pool = MaxPool2dSpec::new([4, 4])
            .problem(&convolved)
            .expect("windows");
        // Bounds that leave something to see.
        let clamp = ClampSpec::new(-0.5, 1.5).problem(&pool.output_shape());
        let (norm, clamp) = (norm.expect("groups"), clamp.expect("bounds"));
        let g = OneLaunch2dGeometry::new(&conv.as_conv3d(), &norm, &pool, &clamp);
        let g = g.expect("the kernel takes this shape");
        Self {
            values,
            filter: signed::<T>(2, OUTPUTS * FILTER_ELEMENTS as usize),
            filter_bias,
            norm: [weight, bias, scale],
            outputs: pool.output_shape().iter().product(),
            g,
        }
    }

    /// What `rounding`, the relative error of a product, lets come out.
    fn wanted(&self, rounding: f64) -> Vec<Wanted> {
        let height = self.g.height as usize;
        let norm = self.norm.each_ref().map(Vec::as_slice);
        (self.values.chunks_exact(INPUTS * height * WIDTH as usize))
            .flat_map(|x| {
                let filters = convolved(x, &self.filter, &self.filter_bias, height);
                wanted(&filters, norm, &self.g, rounding)
            })
            .collect()
    }
}

macro_rules! fused {
    ($name:ident, $spread:ident, $outputs:ident, $T:ident, $format:literal, $config:expr, $rounding:expr) => {
        /// Every image.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for image in IMAGES {
                let case = Case::new::<$T>(image);
                let y = $outputs(run, &case, $config)?;
                compare(&format!("{image:?}"), &y, &case.wanted($rounding))?;
            }
            Ok(())
        }

        /// A sample on more blocks comes to the same bits.
        pub(crate) fn $spread(run: &Run) -> Outcome {
            for image in IMAGES.into_iter().chain([POISONED]) {
                let case = Case::new::<$T>(image);
                let together = $outputs(run, &case, $config)?;
                let spread = $outputs(run, &case, $config.spread())?;
                same_bits(&format!("{image:?}"), &spread, &together)?;
            }
            Ok(())
        }

        /// The kernel's outputs.
        fn $outputs(
            run: &Run,
            case: &Case,
            config: OneLaunch2dConfig,
        ) -> Result<Tensor<$T>, Failure> {
            let g = case.g;
            let x = run.tensor::<$T>(&case.values)?;
            let f = run.tensor::<$T>(&case.filter)?;
            let b = run.tensor::<$T>(&case.filter_bias)?;
            let [w, beta, s] = case.norm.each_ref().map(|of| run.tensor::<$T>(of));
            let (w, beta, s) = (w?, beta?, s?);
            // 32-bit words.
            let operands = run.empty::<f32>(config.operand_words() as usize)?;
            let channels = run.empty::<f32>(CHANNEL_FLOATS as usize)?;
            let arguments = (
                f.source(),
                b.source(),
                w.source(),
                beta.source(),
                s.source(),
                operands.ptr(),
                channels.ptr(),
                g,
            );
            let format = [Label::Name($format)];
            run.launch(
                &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_PREPARE,
                &format,
                Some(g.prepare_shape()),
                arguments,
            )?;
            let y = run.empty::<$T>(case.outputs)?;
            let arguments = (x.source(), operands.source(), channels.source(), y.ptr(), g);
            // Two clusters, which take samples by turns.
            let shape = Some(g.launch_shape(config, 2 * config.cluster_blocks()));
            let family = if config.shares == 1 {
                &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA
            } else {
                &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA_SPREAD
            };
            run.launch(family, &format, shape, arguments)?;
            Ok(y)
        }
    };
}

fused!(
    split,
    split_spread,
    split_outputs,
    f32,
    "split_f32",
    OneLaunch2dConfig::SPLIT,
    f64::exp2(-22.0)
);

fused!(
    rounded,
    rounded_spread,
    rounded_outputs,
    f32,
    "rounded_f32",
    OneLaunch2dConfig::ROUNDED,
    f64::exp2(-11.0)
);

fused!(
    f16,
    f16_spread,
    f16_outputs,
    f16,
    "f16",
    OneLaunch2dConfig::STORED,
    f64::exp2(-20.0)
);

fused!(
    bf16,
    bf16_spread,
    bf16_outputs,
    bf16,
    "bf16",
    OneLaunch2dConfig::STORED,
    f64::exp2(-20.0)
);
