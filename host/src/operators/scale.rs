//! Multiplication by one factor per channel.

use super::launching::{OwnKernels, Parameters, compute, first, single};
use kernels_gpu::scale::SCALE;
use launch_config::KernelGeometry;

use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{ScaleProblem, ScaleSpec};
use launch_config::elementwise::{self, ChannelGeometry};

/// `y[n, c, ..] = x[n, c, ..] * scale[c]`.
///
/// *Shapes*: `x` is `(n, c, *)`, `scale` is `(c)`; the output has the input's shape. In PyTorch this is
/// `x * scale.view(-1, 1, ..)`.
///
/// *Numerics*: one rounding. *NaN* and infinities follow IEEE 754 (`0 * inf` is NaN).
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for ranks and lengths that do not fit,
/// [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::{Array3, array};
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &Array3::<f32>::ones((1, 2, 3)))?;
/// let factors = Tensor::from_array(&stream, &array![2.0f32, -1.0])?;
/// let y = ops::scale(&x, &factors)?;
/// assert_eq!(y.to_array::<f32>()?, array![[[2.0, 2.0, 2.0], [-1.0, -1.0, -1.0]]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn scale(x: &Tensor, scale: &Tensor) -> Result<Tensor> {
    let problem = ScaleSpec::default().problem(x.shape(), scale.shape())?;
    single("scale", x, problem, &[("scale", Some(scale))])
}

/// Appends the operator to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    scale: Value,
    problem: &ScaleProblem,
) -> Result<Value> {
    append_below(program, x, scale, problem.geometry()?, f32::INFINITY)
}

/// Appends a multiplication of the values that are not above `limit`.
pub(super) fn append_below(
    program: &mut ProgramBuilder,
    x: Value,
    scale: Value,
    geometry: ChannelGeometry,
    limit: f32,
) -> Result<Value> {
    let y = program.tensor_like(x)?;
    let (label, shape) = (program.label(x), elementwise::shape(geometry.elements));
    let arguments = (x, scale, y, geometry, limit);
    // SAFETY: `x` and `y` have `geometry.elements` elements, `scale` one per channel.
    unsafe { compute(program, &SCALE, &label, shape, y, arguments) }
}

impl OwnKernels for ScaleProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value> {
        append(program, x, first(given), self)
    }
}
