//! `prelu`: a rectifier with a learned slope.

use launch_config::KernelGeometry;

use super::launching::{OwnKernels, Parameters, first, single};
use super::scale;

use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{PreluProblem, PreluSpec};

/// `y[n, c, ..] = x[n, c, ..]` if it is above 0, else `y[n, c, ..] = x[n, c, ..] * weight[c]`.
///
/// *Shapes*: `x` is `(n, c, *)`, and `weight` is `(c)`. Or `weight` is `(1)`, one slope for all channels, and
/// `x` has any shape. The output has the input's shape.
///
/// *Numerics*: exact above 0; elsewhere one rounding, and one to the storage type. A slope may be any number.
/// The product follows IEEE 754, as in PyTorch. A slope of 0 turns minus infinity into NaN; an infinite slope
/// turns 0 into NaN; a negative slope turns -0 into 0, and 0 into -0.
///
/// *NaN* stays NaN. A slope that is NaN gives NaN for values that are not above 0.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for ranks and lengths that do not fit,
/// [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[-2.0f32, -2.0], [3.0, -4.0]])?;
/// let slopes = Tensor::from_array(&stream, &array![0.25f32, -1.0])?;
/// let y = ops::prelu(&x, &slopes)?;
/// assert_eq!(y.to_array::<f32>()?, array![[-0.5, 2.0], [3.0, 4.0]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.prelu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.prelu.html).
pub fn prelu(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let problem = PreluSpec::default().problem(x.shape(), weight.shape())?;
    single("prelu", x, problem, &[("weight", Some(weight))])
}

impl OwnKernels for PreluProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value> {
        scale::append_below(program, x, first(given), self.geometry()?, 0.0)
    }
}
