//! Normalisation of every channel by statistics that are parameters.

use kernels_gpu::batch_norm::{BATCH_NORM, FOLD_BATCH_NORM};
use launch_config::KernelGeometry;
use launch_config::batch_norm::FoldGeometry;

use super::fused::{Preparation, Preparations, prepared};
use super::launching::{compute, shape_of, single};
use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::{BatchNormProblem, BatchNormSpec};
use launch_config::elementwise::{self, ChannelGeometry};

/// `y = (x - running_mean[c]) / sqrt(running_var[c] + eps) * weight[c] + bias[c]`: batch normalisation at
/// inference, one map for each channel.
///
/// *Shapes*: `x` is `(n, c, *)` with any number of spatial dimensions, also none, `running_mean`,
/// `running_var`, and the optional `weight` and `bias` are `(c)`; the output has the input's shape. This
/// one function is `BatchNorm1d`, `BatchNorm2d` and `BatchNorm3d`.
///
/// *Numerics*: `gain = weight / sqrt(running_var + eps)` and `shift = bias - running_mean * gain` are
/// computed in float64 and rounded to f32 once, also for 16-bit tensors. A result is `fma(gain, x, shift)`.
/// So its error is at most `2^-23 * (|gain * x| + |shift|)`, and one rounding to the storage type.
///
/// *NaN*: NaN stays NaN and affects no other element; NaN in a parameter makes its channel NaN, as does a
/// variance below `-eps`. Infinities follow IEEE 754. If `running_var + eps` is 0 the gain is infinite;
/// PyTorch's backends differ in that case.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): less than two dimensions, statistics or parameters of another length,
/// `eps` that is negative, 0 or NaN. [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
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
/// let y = ops::batch_norm(&x, &mean, &variance, None, None, &spec)?.to_array::<f32>()?;
/// assert_eq!(y, array![[[0.0, 1.0], [-2.0, 2.0]]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.batch_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.batch_norm.html)
/// with `training=False`.
pub fn batch_norm(
    x: &Tensor,
    running_mean: &Tensor,
    running_var: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    spec: &BatchNormSpec,
) -> Result<Tensor> {
    let statistics = [running_mean.shape(), running_var.shape()];
    let [mean, variance] = statistics;
    let problem = spec.problem(x.shape(), mean, variance, shape_of(weight), shape_of(bias))?;
    let parameters = [
        ("running_mean", Some(running_mean)),
        ("running_var", Some(running_var)),
        ("weight", weight),
        ("bias", bias),
    ];
    single("batch_norm", x, problem.into(), &parameters)
}

/// Running mean, running variance, weight and bias of a batch norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statistics {
    pub(crate) mean: Value,
    pub(crate) variance: Value,
    pub(crate) weight: Option<Value>,
    pub(crate) bias: Option<Value>,
}

/// Gain and shift of each channel, `fma(gain, x, shift)`: f32, `(c)`, for any storage type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folded {
    pub(crate) gain: Value,
    pub(crate) shift: Value,
}

/// Plans the operator, including the folding of its parameters.
pub(crate) fn plan(plan: &mut LaunchPlan, dtype: DType, problem: &BatchNormProblem) -> Result<()> {
    if problem.geometry()?.elements == 0 {
        return Ok(());
    }
    let shape = elementwise::fold_shape(FoldGeometry::of(problem)?.channels);
    plan.launch(&FOLD_BATCH_NORM, &[dtype.label()], shape)?;
    plan_map(plan, dtype, &problem.geometry()?)
}

/// Plans the folding as a preparation.
pub(crate) fn plan_folding(
    plan: &mut LaunchPlan,
    dtype: DType,
    problem: &BatchNormProblem,
) -> Result<()> {
    let shape = elementwise::fold_shape(FoldGeometry::of(problem)?.channels);
    plan.preparation(&FOLD_BATCH_NORM, &[dtype.label()], shape)
}

/// Plans the one launch that maps the input.
pub(crate) fn plan_map(
    plan: &mut LaunchPlan,
    dtype: DType,
    geometry: &ChannelGeometry,
) -> Result<()> {
    let shape = elementwise::shape(geometry.elements);
    plan.launch(&BATCH_NORM, &[dtype.label()], shape)
}

/// Appends the one launch that folds the parameters.
fn fold(
    program: &mut ProgramBuilder,
    of: Statistics,
    problem: &BatchNormProblem,
) -> Result<Folded> {
    let geometry = FoldGeometry::of(problem)?;
    // The plan names the kernel for the tensors' type; parameters that each run is given may be f32.
    let (_, shape) = program.next(&FOLD_BATCH_NORM);
    let kernel = FOLD_BATCH_NORM.instance(&[program.dtype(of.mean).label()])?;
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
    // SAFETY: all values that exist have an element for each channel, and the geometry says which do.
    unsafe { program.launch(kernel, shape, arguments) }
    Ok(Folded { gain, shift })
}

/// The folded parameters of the batch norm `layer` of a chain, [prepared] from `of`, which are of one element
/// type.
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

/// Appends the one launch that maps `x`.
pub(crate) fn append_folded(
    program: &mut ProgramBuilder,
    x: Value,
    folded: Folded,
    geometry: ChannelGeometry,
) -> Result<Value> {
    let y = program.tensor_like(x)?;
    let arguments = (x, folded.gain, folded.shift, y, geometry);
    // SAFETY: `x` and `y` have `geometry.elements` elements, gain and shift one per channel.
    Ok(unsafe { compute(program, &BATCH_NORM, y, arguments) })
}
