//! Addition of a residual.

use super::launching::single;
use crate::device::Tensor;
use crate::error::Result;
use crate::spec::AddSpec;

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
