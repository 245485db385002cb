//! Normalisation of each channel of each sample.

use launch_config::KernelGeometry;

use super::group_norm;
use super::launching::{Affine, OwnKernels, Parameters, shape_of, single};
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{InstanceNormProblem, InstanceNormSpec};

/// `y = (x - mean) / sqrt(var + eps) * weight[c] + bias[c]`, with mean and (biased) variance over each
/// channel of each sample. It is computed as a [`group_norm`](crate::ops::group_norm) with one group per
/// channel.
///
/// *Shapes*: `x` is `(n, c, *)` with any number of spatial dimensions, `weight` and `bias`, both optional,
/// are `(c)`; the output has the input's shape.
///
/// *Numerics*, *NaN*: as in [`group_norm`](crate::ops::group_norm).
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): a single spatial element (its deviation is always 0), parameters of
/// another length, `eps` that is negative or NaN. [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::InstanceNormSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[4.0f32, 6.0], [-1.0, 1.0]]])?;
/// let y = ops::instance_norm(&x, None, None, &InstanceNormSpec::default())?.to_array::<f32>()?;
/// assert!(y.iter().all(|value| (value.abs() - 1.0).abs() < 1e-4));
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.instance_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.instance_norm.html)
/// with input statistics.
pub fn instance_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    spec: &InstanceNormSpec,
) -> Result<Tensor> {
    let problem = spec.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    let parameters = [("weight", weight), ("bias", bias)];
    single("instance_norm", x, problem, &parameters)
}

impl OwnKernels for InstanceNormProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value> {
        group_norm::append(program, x, Affine::of(given), self.geometry()?)
    }
}
