//! Addition of a constant or a residual.

use super::launching::single;
use super::pointwise::apply;
use crate::device::Tensor;
use crate::error::Result;
use crate::spec::{AddSpec, PointwiseSpec};

/// The second operand of arithmetic: a number, or a tensor.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Other<'a> {
    /// A number, which is rounded to f32.
    Value(f64),
    /// A tensor.
    Tensor(&'a Tensor),
}

impl From<f64> for Other<'_> {
    fn from(value: f64) -> Self {
        Self::Value(value)
    }
}

impl<'a> From<&'a Tensor> for Other<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

/// `y = x + other`, element by element.
///
/// *Shapes*: any; `other` is a number or has the shape of `x`, as the output has. Unlike in PyTorch, there
/// is no broadcasting.
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
/// let y = ops::add(&x, 0.5)?;
/// assert_eq!(y.to_array::<f32>()?, array![[1.5, 2.5, 3.5]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As [`torch.add`](https://docs.pytorch.org/docs/stable/generated/torch.add.html) without `alpha`.
pub fn add<'a>(x: &Tensor, other: impl Into<Other<'a>>) -> Result<Tensor> {
    match other.into() {
        Other::Value(value) => apply(x, &PointwiseSpec::Add { value }),
        Other::Tensor(residual) => {
            let problem = AddSpec.problem(x.shape(), residual.shape())?;
            single("add", x, problem.into(), &[("residual", Some(residual))])
        }
    }
}
