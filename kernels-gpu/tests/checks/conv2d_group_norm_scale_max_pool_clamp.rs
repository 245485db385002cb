//! KernelBench problem 85 in one launch, on images that the kernels support.

use cuda_std::{Label, Storage, bf16, f16};
use launch_config::AffineType;
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    CHANNEL_FLOATS, OneLaunch2dConfig, OneLaunch2dGeometry, WIDTH,
};
use ndarray::Axis;
use op_spec::ClampSpec;
use op_spec::graph::LayerProblem;
use op_spec::graph::presets::KernelBench85;
use oracle::{Case, Precision};

use super::super::kernels::one_launch::conv2d_group_norm_scale_max_pool_clamp::*;
use super::convolved::{F16x2, Format, ScaledF16, set_filters_apart};
use super::{
    Failure, Loaded, Outcome, Run, Tensor, compare, optional, precision, same_bits, stored,
};

/// An image: samples, height, and the changes of its input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    n: usize,
    height: usize,
    scale: f32,
    added: f32,
    /// Rows with larger values. Each makes the kernels lower the power of two of the input in mid-sample: the
    /// first is 1024 times as large as the other rows, the next one 1024 times as large as that.
    loud_rows: &'static [usize],
    /// A further factor of the first sample.
    first: f32,
    /// The value of all filters of channel 11, if not 0.
    filters: f32,
    /// Whether the second sample has a NaN and the third an infinity.
    poisoned: bool,
}

const fn image(n: usize, height: usize) -> Image {
    Image {
        n,
        height,
        scale: 1.0,
        added: 0.0,
        loud_rows: &[],
        first: 1.0,
        filters: 0.0,
        poisoned: false,
    }
}

/// The images: the smallest one, with three samples a cluster; one that reuses pipeline stages, has rows left
/// over by the pooling, and a mean far from zero; one with a row that exceeds the scale of the first rows;
/// one with values too small for any power of two to scale to the usual range.
const IMAGES: [Image; 4] = [
    image(5, 10),
    Image {
        added: 100.0,
        ..image(1, 53)
    },
    Image {
        loud_rows: &[9],
        ..image(1, 25)
    },
    Image {
        scale: 1e-33,
        ..image(1, 10)
    },
];

/// Rows with larger magnitudes than all before them, where the pipeline of either f32 format has just wrapped
/// around. The rescaled rows, and the rows that still need the previous scale, are then in different phases.
/// 16-bit types have no such values.
const EVER_LOUDER: Image = Image {
    loud_rows: &[17, 25],
    ..image(1, 49)
};

/// A sample after a much larger one in the same cluster: at the scale of the larger one, it would lose most
/// of its bits.
const LOUD_BEFORE: Image = Image {
    first: 6.9e10,
    ..image(3, 10)
};

/// A channel whose mean, about 260,000, is beyond f16's range. The kernel subtracts the mean as an operand.
const FAR_MEAN: Image = Image {
    added: 300.0,
    filters: 12.0,
    ..image(1, 10)
};

/// The most pooled rows that a half has room for, and further rows that the pooling leaves over.
const FULL: Image = image(1, 133);

/// An image for comparisons between kernels only: NaN and infinity, each in its own sample, and a row with
/// larger values in all samples.
const POISONED: Image = Image {
    poisoned: true,
    loud_rows: &[13],
    ..image(4, 18)
};

/// A format with the configuration of its kernels.
pub(crate) trait Configured: Format {
    const CONFIG: OneLaunch2dConfig;
}

macro_rules! configured {
    ($($format:ty: $config:ident;)+) => {
        $(impl Configured for $format {
            const CONFIG: OneLaunch2dConfig = OneLaunch2dConfig::$config;
        })+
    };
}

configured! { F16x2: F16X2; ScaledF16: SCALED_F16; f16: STORED; bf16: STORED; }

/// A case of `n` images of `height` rows. In f32, where filters are scaled, filters have different
/// magnitudes.
pub(super) fn case_of<T: Storage>(preset: KernelBench85, n: usize, height: usize) -> Case {
    let layers = preset.chain().expect("layers that fit");
    let shape = [n, preset.in_channels, height, WIDTH as usize];
    let mut case = super::case::<T>(layers.layers().iter().cloned(), &shape);
    if size_of::<T>() == size_of::<f32>() {
        set_filters_apart(&mut case.parameters[0], 1);
    }
    case
}

/// A case of the image, with parameters of either sign and 0, and bounds that clamp only part of the results.
fn case<T: Storage>(image: Image) -> Case {
    let Image { n, height, .. } = image;
    let width = WIDTH as usize;
    let preset = KernelBench85 {
        clamp: ClampSpec::new(-0.5, 1.5),
        ..KernelBench85::default()
    };
    let mut case = case_of::<T>(preset, n, height);
    let sample = case.x.len() / n;
    for (i, x) in case.x.iter_mut().enumerate() {
        let row = i / width % height;
        let loud = image.loud_rows.iter().position(|&loud| loud == row);
        let loud = loud.map_or(1.0, |before| 1024f32.powi(before as i32 + 1));
        let first = if i < sample { image.first } else { 1.0 };
        *x = stored::<T>(*x * image.scale * loud * first + image.added);
    }
    if image.poisoned {
        case.x[[1, 0, 5, 17]] = f32::NAN;
        case.x[[2, 0, 11, 99]] = f32::INFINITY;
    }
    if image.filters != 0.0 {
        let mut filters = case.parameters[0].index_axis_mut(Axis(0), 11);
        filters.fill(image.filters);
    }
    for (parameter, channel) in [(2, 7), (4, 20)] {
        let values = case.parameters[parameter].as_slice_mut();
        values.expect("a vector")[channel] = 0.0;
    }
    case
}

/// The kernel's geometry for the case.
fn geometry(case: &Case) -> OneLaunch2dGeometry {
    let problem = case.problem().expect("an image");
    let layers: Vec<_> = problem.steps.iter().map(|step| step.problem).collect();
    let &[
        LayerProblem::Conv2d(conv),
        LayerProblem::GroupNorm(norm),
        LayerProblem::Scale(_),
        LayerProblem::MaxPool2d(pool),
        LayerProblem::Pointwise(clamp),
    ] = &layers[..]
    else {
        unreachable!("the layers of problem 85")
    };
    let clamp = clamp.as_clamp().expect("a clamp");
    let g = OneLaunch2dGeometry::new(&conv.as_conv3d(), &norm, &pool.pool, &clamp);
    g.expect("the kernel takes this shape")
}

/// Checks every image.
pub(crate) fn matches<F: Configured>(run: &Run) -> Outcome {
    // A quarter of the format's bound: the oracle counts the terms of a sum, and propagates their errors
    // through the statistics.
    let precision = Precision {
        products: F::PRODUCTS / 4.0,
        ..precision::<F::Stored>()
    };
    let further = match size_of::<F::Stored>() {
        4 => &[EVER_LOUDER, LOUD_BEFORE][..],
        _ => &[FULL, FAR_MEAN],
    };
    for image in IMAGES.iter().chain(further).copied() {
        let case = case::<F::Stored>(image);
        let y = outputs::<F>(run, &case, F::CONFIG)?;
        let wanted = case.expected_of_one_kernel(&precision).expect("an image");
        compare(&format!("{image:?}"), &y, &wanted)?;
        if size_of::<F::Stored>() < size_of::<f32>() {
            let stored = prepare::<F>(run, &case, F::CONFIG, false)?;
            let wide = prepare::<F>(run, &case, F::CONFIG, true)?;
            let what = format!("{image:?} with a norm's parameters in f32");
            same_bits(&what, &wide.channels, &stored.channels)?;
            same_bits(&what, &wide.operands, &stored.operands)?;
        }
    }
    Ok(())
}

/// Checks that a sample spread over more blocks gives the same bits.
pub(crate) fn spread<F: Configured>(run: &Run) -> Outcome {
    for image in IMAGES.into_iter().chain([POISONED]) {
        let case = case::<F::Stored>(image);
        let together = outputs::<F>(run, &case, F::CONFIG)?;
        let spread = outputs::<F>(run, &case, F::CONFIG.spread())?;
        same_bits(&format!("{image:?}"), &spread, &together)?;
    }
    Ok(())
}

/// Checks that the last sample of a batch of more than 2^32 elements has the bits that it has alone.
pub(crate) fn far<F: Configured>(run: &Run) -> Outcome {
    const SAMPLES: u32 = 1_200_001;
    let case = case::<F::Stored>(image(1, 10));
    let alone = outputs::<F>(run, &case, F::CONFIG)?.values()?;
    let prepared = prepare::<F>(run, &case, F::CONFIG, false)?;
    let values: Vec<f32> = case.x.iter().copied().collect();
    let (inputs, outputs) = (values.len() as u64, alone.len() as u64);
    let g = OneLaunch2dGeometry {
        n: SAMPLES,
        ..geometry(&case)
    };
    let all = u64::from(SAMPLES);
    let x = run.computed::<F::Stored>(all * inputs, move |at| values[(at % inputs) as usize])?;
    let y = run.sparse::<F::Stored>(all * outputs)?;
    let shape = g.launch_shape(F::CONFIG, SAMPLES * F::CONFIG.cluster_blocks());
    let arguments = (
        x.source(),
        prepared.operands.source(),
        prepared.channels.source(),
        y.ptr(),
        g,
    );
    let (family, labels) = (
        &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA,
        [Label::Name(F::LABEL)],
    );
    let last = u64::from(shape.grid[0]) - 1;
    run.launch_some(family, &labels, Some(shape), &[last], arguments)?;
    y.are(
        "the last sample",
        (all - 1) * outputs..all * outputs,
        |at| alone[(at % outputs) as usize],
    )
}

/// Prepared parameters: filters as operands, and the numbers of each channel.
struct Prepared {
    operands: Tensor<f32>,
    channels: Tensor<f32>,
}

/// Prepares the parameters; `in_f32` stores weight and bias of the norm in f32.
fn prepare<F: Configured>(
    run: &Run,
    case: &Case,
    config: OneLaunch2dConfig,
    in_f32: bool,
) -> Result<Prepared, Failure> {
    let g = OneLaunch2dGeometry {
        affine_type: AffineType::of(in_f32),
        ..geometry(case)
    };
    let Loaded { parameters, .. } = run.load::<F::Stored>(case)?;
    // The parameters that exist, in this order.
    let mut those = parameters.iter();
    let mut next = |is_there: bool| optional(those.by_ref().take(usize::from(is_there)).next());
    let (has_bias, affine) = (g.bias.is_present(), g.affine.is_present());
    let [f, b, mut w, mut beta, s] = [true, has_bias, affine, affine, true].map(&mut next);
    let f32_parameters = run.load::<f32>(case)?.parameters;
    if in_f32 && affine {
        let first = 1 + usize::from(has_bias);
        [w, beta] = [first, first + 1].map(|index| f32_parameters[index].source());
    }
    // 32-bit words.
    let operands = run.empty::<f32>(config.operand_words() as usize)?;
    let channels = run.empty::<f32>(CHANNEL_FLOATS as usize)?;
    let arguments = (f, b, w, beta, s, operands.ptr(), channels.ptr(), g);
    let format = [Label::Name(F::LABEL)];
    let family = &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_PREPARE;
    run.launch(family, &format, Some(g.prepare_shape()), arguments)?;
    Ok(Prepared { operands, channels })
}

/// The kernel's outputs.
pub(super) fn outputs<F: Configured>(
    run: &Run,
    case: &Case,
    config: OneLaunch2dConfig,
) -> Result<Tensor<F::Stored>, Failure> {
    let g = geometry(case);
    let x = run.load::<F::Stored>(case)?.x;
    let Prepared { operands, channels } = prepare::<F>(run, case, config, false)?;
    let format = [Label::Name(F::LABEL)];
    let problem = case.problem().expect("an image");
    let y = run.empty(problem.output_shape().iter().product())?;
    let arguments = (x.source(), operands.source(), channels.source(), y.ptr(), g);
    // Two clusters, which take samples in turn.
    let shape = Some(g.launch_shape(config, 2 * config.cluster_blocks()));
    let family = if config.blocks_per_half == 1 {
        &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA
    } else {
        &CONV2D_GROUP_NORM_SCALE_MAX_POOL_CLAMP_WGMMA_SPREAD
    };
    run.launch(family, &format, shape, arguments)?;
    Ok(y)
}
