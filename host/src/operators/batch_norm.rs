//! Normalisation of every channel by running statistics, which are parameters, or by the batch's statistics.

use kernels_gpu::batch_norm::BATCH_NORM;
use launch_config::KernelGeometry;
use launch_config::elementwise::{self, ChannelGeometry};

use super::batch_norm_parameters::{Folded, OfBatch, Statistics, fold, of_batch, of_layer};
use super::fused::group_norm_scale_pointwise::{Tail, normalise_and_map};
use super::launching::{Affine, OwnKernels, Parameters, compute, shape_of, single};
use super::norm_statistics;
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{BatchNormProblem, BatchNormSpec};

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
    single("batch_norm", x, problem, parameters.as_flattened())
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

impl OwnKernels for BatchNormProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value> {
        if self.of_batch {
            let (affine, running) = of_layer(self, given);
            return append_by_batch(program, x, affine, running, self);
        }
        let [Some(mean), Some(variance), weight, bias] = given else {
            unreachable!("the problem was made with both statistics");
        };
        let statistics = Statistics {
            mean,
            variance,
            weight,
            bias,
        };
        append(program, x, statistics, self)
    }
}
