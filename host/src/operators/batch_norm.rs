//! Normalisation of every channel by running statistics, which are parameters, or by the batch's statistics.

use kernels_gpu::batch_norm::{BATCH_NORM, BATCH_NORM_MOMENTS, FOLD_BATCH_NORM};
use launch_config::KernelGeometry;
use launch_config::batch_norm::{BatchMoments, FoldGeometry};

use super::fused::group_norm_scale_pointwise::{Tail, normalise_and_map};
use super::fused::{Preparation, Preparations, prepared};
use super::launching::{Affine, compute, shape_of, single};
use super::norm_statistics::{self, NormInput};
use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::parameters::MAX_PARAMETERS;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{BatchNormProblem, BatchNormSpec};
use launch_config::elementwise::{self, ChannelGeometry, fold_shape};
use launch_config::{AffineType, Presence};

/// `y = (x - mean[c]) / sqrt(var[c] + eps) * weight[c] + bias[c]`. Mean and variance are the running
/// statistics `running`. Without running statistics, or in training, they are the mean and the (biased)
/// variance of each channel over the batch and all positions.
///
/// *Shapes*: `x` is `(n, c, *)` with any number of spatial dimensions, including none. `running`, and the
/// optional `weight` and `bias`, are `(c)`. The output has the input's shape. This one function is
/// `BatchNorm1d`, `BatchNorm2d` and `BatchNorm3d`. It does not change running statistics;
/// [`Launches::functional`](crate::model::Launches::functional) computes new ones.
///
/// *Numerics*: with the batch's statistics as in [`group_norm`](crate::ops::group_norm), whose groups are the
/// channels of all samples. With running statistics, `gain = weight / sqrt(running_var + eps)` and
/// `shift = bias - running_mean * gain` are computed in float64 and rounded to f32 once, also for 16-bit
/// tensors. The result is `fma(gain, x, shift)`. Its error is at most `2^-23 * (|gain * x| + |shift|)`, plus
/// one rounding to the storage type.
///
/// *NaN*: NaN stays NaN and affects no other element. NaN in a parameter makes its channel NaN, as does a
/// variance below `-eps`. Infinities follow IEEE 754. If `running_var + eps` is 0 the gain is infinite;
/// PyTorch's backends differ in that case. With the batch's statistics, NaN or an infinity makes its channel
/// NaN in all samples.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): less than two dimensions; statistics or parameters of another length;
/// `eps` that is negative, 0 or NaN; with the batch's statistics, a single value per channel.
/// [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::BatchNormSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 3.0], [10.0, 30.0]]])?;
/// let mean = Tensor::from_array(&stream, &array![1.0f32, 20.0])?;
/// let variance = Tensor::from_array(&stream, &array![3.0f32, 24.0])?;
/// let spec = BatchNormSpec::default().eps(1.0);
/// let y = ops::batch_norm(&x, Some([&mean, &variance]), None, None, &spec)?.to_array::<f32>()?;
/// assert_eq!(y, array![[[0.0, 1.0], [-2.0, 2.0]]].into_dyn());
/// let y = ops::batch_norm(&x, None, None, None, &spec.eps(0.25))?.to_array::<f32>()?;
/// assert!((y[[0, 0, 1]] - 0.8f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.batch_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.batch_norm.html).
pub fn batch_norm(
    x: &Tensor,
    running: Option<[&Tensor; 2]>,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    spec: &BatchNormSpec,
) -> Result<Tensor> {
    let shapes = running.map(|running| running.map(Tensor::shape));
    let problem = spec.problem(x.shape(), shapes, shape_of(weight), shape_of(bias))?;
    let affine = [("weight", weight), ("bias", bias)];
    let [mean, variance] = [0, 1].map(|index| running.map(|running| running[index]));
    let running = [("running_mean", mean), ("running_var", variance)];
    let parameters = match problem.of_batch {
        true => [affine, running],
        false => [running, affine],
    };
    single("batch_norm", x, problem.into(), parameters.as_flattened())
}

/// Running mean, running variance, weight and bias of a batch norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statistics {
    pub(crate) mean: Value,
    pub(crate) variance: Value,
    pub(crate) weight: Option<Value>,
    pub(crate) bias: Option<Value>,
}

/// The arguments for a kernel of another operator that folds a batch norm itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoldedInKernel {
    /// Running mean, running variance, weight and bias.
    pub(crate) values: [Option<Value>; 4],
    pub(crate) geometry: FoldGeometry,
    pub(crate) ty: AffineType,
    pub(crate) presence: Presence,
}

impl FoldedInKernel {
    /// Returns the arguments for a norm, or those for no norm.
    pub(crate) fn of(
        program: &ProgramBuilder,
        norm: Option<(Statistics, BatchNormProblem)>,
    ) -> Result<Self> {
        let Some((of, problem)) = norm else {
            return Ok(Self {
                values: [None; 4],
                geometry: FoldGeometry::NONE,
                ty: AffineType::F32,
                presence: Presence::ABSENT,
            });
        };
        Ok(Self {
            values: [Some(of.mean), Some(of.variance), of.weight, of.bias],
            geometry: FoldGeometry::of(&problem)?,
            ty: AffineType::of(program.dtype(of.mean) == DType::F32),
            presence: Presence::PRESENT,
        })
    }
}

/// Gain and shift of each channel in `fma(gain, x, shift)`: f32 of shape `(c)`, for any storage type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folded {
    pub(crate) gain: Value,
    pub(crate) shift: Value,
}

/// Appends the launch that folds the parameters.
fn fold(
    program: &mut ProgramBuilder,
    of: Statistics,
    problem: &BatchNormProblem,
) -> Result<Folded> {
    let geometry = FoldGeometry::of(problem)?;
    let (label, fold) = (program.label(of.mean), fold_shape(geometry.channels));
    let gain = program.tensor(&[problem.shape.c], DType::F32)?;
    let shift = program.tensor_like(gain)?;
    let arguments = (
        of.mean,
        of.variance,
        of.weight,
        of.bias,
        gain,
        shift,
        geometry,
    );
    // SAFETY: every present value has an element for each channel, and the geometry says which are present.
    unsafe { program.launch(&FOLD_BATCH_NORM, &label, fold, arguments)? }
    Ok(Folded { gain, shift })
}

/// Returns the folded parameters of the batch norm `layer` of a chain, [prepared] from `of`, whose values
/// have one element type.
pub(crate) fn folded(
    program: &mut ProgramBuilder,
    preparations: &Preparations,
    layer: usize,
    of: Statistics,
    problem: &BatchNormProblem,
) -> Result<Folded> {
    let known = [Some(of.mean), Some(of.variance), of.weight, of.bias];
    let append = |program: &mut ProgramBuilder, known: [Option<Value>; 4]| {
        let [Some(mean), Some(variance), weight, bias] = known else {
            unreachable!("statistics are not optional");
        };
        let of = Statistics {
            mean,
            variance,
            weight,
            bias,
        };
        let Folded { gain, shift } = fold(program, of, problem)?;
        Ok([gain, shift])
    };
    let of = (layer, Preparation::FoldedBatchNorm);
    let [gain, shift] = prepared(program, preparations, of, known, append)?;
    Ok(Folded { gain, shift })
}

/// A batch norm with the batch's statistics, and the running mean and variance that it renews.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfBatch<'a> {
    pub(crate) problem: &'a BatchNormProblem,
    pub(crate) running: [Option<Value>; 2],
}

/// Appends the launch that combines the moments of rows into the batch's moments. It also renews the running
/// mean and variance, if each run gets them.
pub(crate) fn of_batch(
    program: &mut ProgramBuilder,
    input: NormInput,
    OfBatch { problem, running }: OfBatch<'_>,
) -> Result<NormInput> {
    let given = running.map(|running| running.filter(|&value| !program.keeps(value)));
    let momentum = problem.momentum.filter(|_| given != [None; 2]);
    let geometry = BatchMoments::new(input.norm, momentum);
    let norm = input.norm.of_batch();
    let moments = program.tensor(&[norm.partial_elements() as usize], DType::F32)?;
    let [mut known, mut renewed] = [[None; 2]; 2];
    for (index, parameter) in given.into_iter().flatten().enumerate() {
        // An earlier norm may already have renewed the same parameters.
        let current = program.renewed(parameter).unwrap_or(parameter);
        let new = program.tensor(&[problem.shape.c], DType::F32)?;
        known[index] = Some(program.converted(current, DType::F32)?);
        renewed[index] = Some(new);
        program.renew(parameter, new);
    }
    let ([mean, variance], [new_mean, new_variance]) = (known, renewed);
    let arguments = (
        input.partials,
        moments,
        mean,
        variance,
        new_mean,
        new_variance,
        geometry,
    );
    // SAFETY: the partial results are those of the norm's rows (channels), and `moments` has room for one
    // result per channel; running statistics have an element for each channel.
    unsafe { program.launch(&BATCH_NORM_MOMENTS, &[], geometry.shape(), arguments)? }
    Ok(NormInput {
        partials: moments,
        norm,
        ..input
    })
}

/// Splits the parameters of a norm with the batch's statistics: weight and bias, and the running statistics
/// that it renews.
pub(crate) fn of_layer(
    problem: &BatchNormProblem,
    parameters: [Option<Value>; MAX_PARAMETERS],
) -> (Affine, [Option<Value>; 2]) {
    let mut present = parameters.into_iter().flatten();
    let mut next = |is_there: bool| match is_there {
        true => present.next(),
        false => None,
    };
    let affine = Affine {
        weight: next(problem.weight),
        bias: next(problem.bias),
    };
    (affine, [(); 2].map(|()| next(problem.momentum.is_some())))
}

/// Appends the operator with the batch's statistics. It renews `running`, if present.
pub(crate) fn append_by_batch(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    running: [Option<Value>; 2],
    problem: &BatchNormProblem,
) -> Result<Value> {
    if program.bytes(&[x]) == 0 {
        return program.tensor_like(x);
    }
    let norm = problem.as_group_norm().geometry()?;
    let input = norm_statistics::statistics(program, x, affine, norm)?;
    let input = of_batch(program, input, OfBatch { problem, running })?;
    normalise_and_map(program, &input, Tail::NONE)
}

/// Appends the operator to a program, including the folding of its parameters.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    of: Statistics,
    problem: &BatchNormProblem,
) -> Result<Value> {
    if program.bytes(&[x]) == 0 {
        return program.tensor_like(x);
    }
    let folded = fold(program, of, problem)?;
    append_folded(program, x, folded, problem.geometry()?)
}

/// Appends the launch that applies gain and shift to `x`.
pub(crate) fn append_folded(
    program: &mut ProgramBuilder,
    x: Value,
    folded: Folded,
    geometry: ChannelGeometry,
) -> Result<Value> {
    let y = program.tensor_like(x)?;
    let (label, shape) = (program.label(x), elementwise::shape(geometry.elements));
    let arguments = (x, folded.gain, folded.shift, y, geometry);
    // SAFETY: `x` and `y` have `geometry.elements` elements, gain and shift one per channel.
    unsafe { compute(program, &BATCH_NORM, &label, shape, y, arguments) }
}
