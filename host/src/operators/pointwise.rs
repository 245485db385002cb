//! The pointwise functions.
//!
//! Document a new function here as [`clamp`] is. The CPU implementation is in `cpu/pointwise.rs`.

use kernels_gpu::pointwise::POINTWISE;
use launch_config::pointwise::Step;

use super::launching::{compute, single};
use crate::device::Tensor;
use crate::error::Result;
use crate::graph::LayerProblem;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{ClampSpec, GeluApproximation, PointwiseProblem, PointwiseSpec};
use launch_config::pointwise::{MAX_STEPS, PointwiseList, shape};

/// `y = min(max(x, spec.min), spec.max)`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: exact for f32; bounds are rounded to f32, results to the storage type.
///
/// *NaN* stays NaN. With `min > max` every number becomes `max`.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) if both bounds are absent.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::ClampSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-2.0f32, 0.25, 7.0])?;
/// let y = ops::clamp(&x, &ClampSpec { min: Some(0.0), max: None })?;
/// assert_eq!(y.to_array::<f32>()?, array![0.0, 0.25, 7.0].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As [`torch.clamp`](https://docs.pytorch.org/docs/stable/generated/torch.clamp.html).
pub fn clamp(x: &Tensor, spec: &ClampSpec) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Clamp(*spec))
}

/// `y = max(x, 0)`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: exact. -0 becomes 0 on a GPU and stays on the CPU, as in PyTorch 2.11.
///
/// *NaN* stays NaN.
///
/// In a chain it takes every kernel that [`clamp`] takes: it is the clamp whose only bound is a lower one of
/// 0.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-2.0f32, 0.25, 7.0])?;
/// assert_eq!(ops::relu(&x)?.to_array::<f32>()?, array![0.0, 0.25, 7.0].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.relu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu.html).
pub fn relu(x: &Tensor) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Relu {})
}

/// `y = x` where `x > 0`, else `y = negative_slope * x`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: exact above 0; elsewhere slope and product are rounded to f32, results to the storage type.
/// The slope may be any number, also one below 0 or above 1. The product is IEEE's, as in PyTorch, on a GPU
/// as on the CPU: a slope of 0 makes NaN of minus infinity, and -0 of finite numbers below 0; a negative one
/// makes 0 of -0, and -0 of 0.
///
/// *NaN* stays NaN.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-2.0f32, 0.25, 7.0])?;
/// let y = ops::leaky_relu(&x, 0.5)?;
/// assert_eq!(y.to_array::<f32>()?, array![-1.0, 0.25, 7.0].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.leaky_relu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.leaky_relu.html),
/// whose default slope is 0.01.
pub fn leaky_relu(x: &Tensor, negative_slope: f64) -> Result<Tensor> {
    apply(x, &PointwiseSpec::LeakyRelu { negative_slope })
}

/// `y = x / (1 + e^-x)`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: relative error up to 4 ulps of f32, also where the value is tiny; in 16 bits up to `2^-16`
/// before the result is rounded to them.
///
/// *NaN* stays NaN. Of minus infinity it is NaN, a product with 0, as in PyTorch on a GPU; numbers far below
/// 0 give -0, as -0 does.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-1.0f32, 0.0, 2.0])?;
/// let y = ops::silu(&x)?.to_array::<f32>()?;
/// assert!(y.iter().zip(&[-0.268_941, 0.0, 1.761_594]).all(|(y, want): (&f32, &f32)| (y - want).abs() < 1e-5));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.silu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.silu.html).
pub fn silu(x: &Tensor) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Silu {})
}

/// `y = x` times the cumulative normal distribution at `x`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: relative error up to 6 ulps of f32, in 16 bits `2^-16` before the result is rounded to them,
/// also far below 0, where PyTorch's `1 + erf(..)` has lost all digits from about -5.5 on. `approximate`
/// chooses between the exact distribution and PyTorch's tanh approximation.
///
/// *NaN* stays NaN. Of minus infinity it is NaN, a product with 0, as in PyTorch on a GPU; numbers far below
/// 0 give -0, as -0 does.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::GeluApproximation};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-1.0f32, 0.0, 2.0])?;
/// let y = ops::gelu(&x, GeluApproximation::None)?.to_array::<f32>()?;
/// assert!(y.iter().zip(&[-0.158_655, 0.0, 1.954_5]).all(|(y, want): (&f32, &f32)| (y - want).abs() < 1e-5));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.gelu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html).
pub fn gelu(x: &Tensor, approximate: GeluApproximation) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Gelu { approximate })
}

/// `y = 1 / (1 + e^-x)`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: relative error up to 4 ulps of f32, also where the value is tiny; in 16 bits up to `2^-16`
/// before the result is rounded to them.
///
/// *NaN* stays NaN. Of the infinities it is 0 and 1.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-1.0f32, 0.0, 2.0])?;
/// let y = ops::sigmoid(&x)?.to_array::<f32>()?;
/// assert!(y.iter().zip(&[0.268_941, 0.5, 0.880_797]).all(|(y, want): (&f32, &f32)| (y - want).abs() < 1e-5));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As [`torch.sigmoid`](https://docs.pytorch.org/docs/stable/generated/torch.sigmoid.html).
pub fn sigmoid(x: &Tensor) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Sigmoid {})
}

/// `y = tanh(x)`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: relative error up to 4 ulps of f32, also where the value is tiny; in 16 bits up to `2^-16`
/// before the result is rounded to them.
///
/// *NaN* stays NaN. Of the infinities it is -1 and 1, of -0 it is -0.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-1.0f32, 0.0, 2.0])?;
/// let y = ops::tanh(&x)?.to_array::<f32>()?;
/// assert!(y.iter().zip(&[-0.761_594, 0.0, 0.964_028]).all(|(y, want): (&f32, &f32)| (y - want).abs() < 1e-5));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As [`torch.tanh`](https://docs.pytorch.org/docs/stable/generated/torch.tanh.html).
pub fn tanh(x: &Tensor) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Tanh {})
}

/// `y = x * min(max(x + 3, 0), 6) / 6`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: relative error up to 3 ulps of f32, exact from 3 on: unlike PyTorch's, no product overflows.
/// Results are rounded to the storage type.
///
/// *NaN* stays NaN. Of minus infinity it is NaN, a product with 0, as in PyTorch on a GPU; numbers from -3
/// down give -0, as -0 does.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-1.0f32, 0.0, 2.0])?;
/// let y = ops::hardswish(&x)?.to_array::<f32>()?;
/// assert!(y.iter().zip(&[-0.333_333, 0.0, 1.666_667]).all(|(y, want): (&f32, &f32)| (y - want).abs() < 1e-5));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.hardswish`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.hardswish.html).
pub fn hardswish(x: &Tensor) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Hardswish {})
}

/// `y = x` where `x > 0`, else `y = alpha * (e^x - 1)`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: exact above 0; elsewhere relative error up to 3 ulps of f32, also near 0; results are rounded
/// to the storage type. `alpha` may be any number.
///
/// *NaN* stays NaN. Of minus infinity it is `-alpha`, of -0 it is `-0 * alpha`.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-1.0f32, 0.0, 2.0])?;
/// let y = ops::elu(&x, 1.0)?.to_array::<f32>()?;
/// assert!(y.iter().zip(&[-0.632_121, 0.0, 2.0]).all(|(y, want): (&f32, &f32)| (y - want).abs() < 1e-5));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.elu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.elu.html),
/// whose default is 1.
pub fn elu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Elu { alpha })
}

/// `y = x` where `beta * x > threshold`, else `y = ln(1 + e^(beta * x)) / beta`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: attributes are rounded to f32; then the relative error is up to 4 ulps of f32, also where the
/// value is tiny, and in 16 bits up to `2^-16` before the result is rounded to them. Unlike PyTorch's,
/// `e^(beta * x)` does not overflow where the threshold is above 88.
///
/// *NaN* stays NaN. Of minus infinity it is 0. `beta` and `threshold` may be any numbers.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-1.0f32, 0.0, 2.0])?;
/// let y = ops::softplus(&x, 1.0, 20.0)?.to_array::<f32>()?;
/// assert!(y.iter().zip(&[0.313_262, 0.693_147, 2.126_928]).all(|(y, want): (&f32, &f32)| (y - want).abs() < 1e-5));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.softplus`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softplus.html),
/// whose defaults are 1 and 20.
pub fn softplus(x: &Tensor, beta: f64, threshold: f64) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Softplus { beta, threshold })
}

/// `y = x * tanh(ln(1 + e^x))`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: relative error up to 5 ulps of f32, also where the value is tiny; in 16 bits up to `2^-16`
/// before the result is rounded to them.
///
/// *NaN* stays NaN. Of minus infinity it is NaN, a product with 0, as in PyTorch on a GPU; numbers far below
/// 0 give -0, as -0 does.
///
/// # Errors
/// [`Error::TooManyBlocks`](crate::Error::TooManyBlocks) for more elements than a launch takes.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-1.0f32, 0.0, 2.0])?;
/// let y = ops::mish(&x)?.to_array::<f32>()?;
/// assert!(y.iter().zip(&[-0.303_401, 0.0, 1.943_959]).all(|(y, want): (&f32, &f32)| (y - want).abs() < 1e-5));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.mish`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mish.html).
pub fn mish(x: &Tensor) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Mish {})
}

/// Runs any pointwise function.
pub(crate) fn apply(x: &Tensor, function: &PointwiseSpec) -> Result<Tensor> {
    let problem = LayerProblem::Pointwise(function.problem(x.shape())?);
    single(function.operator(), x, problem, &[])
}

/// Appends functions to a program, one after the other, as many to a launch as a list holds.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    functions: &[PointwiseProblem],
) -> Result<Value> {
    let mut value = x;
    let len = program
        .shape(x)
        .iter()
        .map(|&extent| extent as u64)
        .product();
    let mut steps = functions.iter().map(|problem| Step::of(&problem.function));
    for _ in functions.chunks(MAX_STEPS) {
        let list = PointwiseList::take(&mut steps);
        let y = program.tensor_like(value)?;
        // SAFETY: both values have `len` elements.
        value = unsafe { compute(program, &POINTWISE, shape(len), y, (value, y, len, list))? };
    }
    Ok(value)
}
