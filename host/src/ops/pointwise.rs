//! The pointwise functions: each value by itself, wherever it stands.
//!
//! A new function is documented here as [`clamp`] is, and has an arm in `append` and in `map`.

use kernels_gpu::pointwise::{CLAMP, LEAKY_RELU, RELU};

use super::launching::{compute, single};
use crate::chain::LayerProblem;
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::launch::elementwise::{self, Bounds};
use crate::spec::{ClampSpec, PointwiseProblem, PointwiseSpec};

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
/// In a chain it takes every kernel that [`clamp`] takes: it is the clamp whose only bound is a lower one of 0.
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
/// As [`torch.nn.functional.relu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu.html).
pub fn relu(x: &Tensor) -> Result<Tensor> {
    apply(x, &PointwiseSpec::Relu {})
}

/// `y = x` where `x > 0`, else `y = negative_slope * x`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: exact above 0; elsewhere slope and product are rounded to f32, results to the storage type. The slope may
/// be any number, also one below 0 or above 1. The product is IEEE's, as in PyTorch, on a GPU as on the CPU: a slope of 0
/// makes NaN of minus infinity, and -0 of finite numbers below 0; a negative one makes 0 of -0, and -0 of 0.
///
/// *NaN* stays NaN.
///
/// In a chain it is a kernel of its own: no clamp computes the same.
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
/// As [`torch.nn.functional.leaky_relu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.leaky_relu.html),
/// whose default slope is 0.01.
pub fn leaky_relu(x: &Tensor, negative_slope: f64) -> Result<Tensor> {
    apply(x, &PointwiseSpec::LeakyRelu { negative_slope })
}

/// A pointwise function, whichever it is.
pub(crate) fn apply(x: &Tensor, function: &PointwiseSpec) -> Result<Tensor> {
    let problem = LayerProblem::Pointwise(function.problem(x.shape())?);
    single(function.operator(), x, problem, &[])
}

/// Appends a function to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &PointwiseProblem,
) -> Result<Value> {
    let (len, y) = (problem.len as u64, program.tensor_like(x)?);
    let shape = elementwise::shape(len);
    // SAFETY: both values have `len` elements.
    unsafe {
        match problem.function {
            PointwiseSpec::Clamp(_) => {
                compute(program, &CLAMP, shape, y, (x, y, len, bounds(problem)))
            }
            PointwiseSpec::Relu {} => compute(program, &RELU, shape, y, (x, y, len)),
            PointwiseSpec::LeakyRelu { negative_slope } => {
                let arguments = (x, y, len, negative_slope as f32);
                compute(program, &LEAKY_RELU, shape, y, arguments)
            }
        }
    }
}

/// The bounds of a clamp.
fn bounds(problem: &PointwiseProblem) -> Bounds {
    let clamp = problem.as_clamp();
    clamp.map_or(Bounds::NONE, |clamp| clamp.kernel_bounds())
}

/// What the CPU backend does with some of the problem's values, in place.
pub(crate) fn map(problem: &PointwiseProblem, values: &mut [f32]) {
    match problem.function {
        PointwiseSpec::Clamp(_) => {
            let bounds = bounds(problem);
            let (min, max) = if bounds.min.is_nan() || bounds.max.is_nan() {
                (f32::NAN, f32::NAN)
            } else {
                (bounds.min, bounds.max)
            };
            // Comparisons with NaN are false, so a NaN value passes both; a NaN bound replaces every value.
            for v in values {
                let low = if *v < min || min.is_nan() { min } else { *v };
                *v = if low > max || max.is_nan() { max } else { low };
            }
        }
        PointwiseSpec::Relu {} => {
            for v in values {
                *v = if *v < 0.0 { 0.0 } else { *v };
            }
        }
        PointwiseSpec::LeakyRelu { negative_slope } => {
            let slope = negative_slope as f32;
            for v in values {
                *v = if *v > 0.0 { *v } else { *v * slope };
            }
        }
    }
}
