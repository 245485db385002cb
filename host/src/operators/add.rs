//! Addition of a residual.

use super::launching::{compute, single};
use kernels_gpu::add::ADD;

use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::{AddProblem, AddSpec};
use launch_config::elementwise;

/// `y = x + residual`, element by element.
///
/// *Shapes*: any; both inputs and the output have the same shape. Unlike in PyTorch, there is no
/// broadcasting.
///
/// *Numerics*: one rounding, and one to the storage type. *NaN*, infinities and the sign of zeros follow IEEE
/// 754: `inf - inf` is NaN, and a sum is `-0` only of `-0` and `-0`.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for shapes that differ,
/// [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[1.0f32, 2.0, 3.0]])?;
/// let residual = Tensor::from_array(&stream, &array![[0.5f32, -2.0, 1.0]])?;
/// let y = ops::add(&x, &residual)?;
/// assert_eq!(y.to_array::<f32>()?, array![[1.5, 0.0, 4.0]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As [`torch.add`](https://docs.pytorch.org/docs/stable/generated/torch.add.html) without `alpha`.
pub fn add(x: &Tensor, residual: &Tensor) -> Result<Tensor> {
    let problem = AddSpec.problem(x.shape(), residual.shape())?;
    let residual = [("residual", Some(residual))];
    single("add", x, problem.into(), &residual)
}

/// Plans the launch.
pub(crate) fn plan(plan: &mut LaunchPlan, dtype: DType, problem: &AddProblem) -> Result<()> {
    let shape = elementwise::shape(problem.len as u64);
    plan.launch(&ADD, &[dtype.label()], shape)
}

/// Appends the operator to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    residual: Value,
    problem: &AddProblem,
) -> Result<Value> {
    let y = program.tensor_like(x)?;
    let elements = problem.len as u64;
    // SAFETY: all three have `elements` elements.
    Ok(unsafe { compute(program, &ADD, y, (x, residual, y, elements)) })
}
