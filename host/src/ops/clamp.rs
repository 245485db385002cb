//! Limiting values to an interval.

use super::launching::{from_cpu, grid, once};
use kernels_gpu::clamp::CLAMP;

use crate::cpu;
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::ClampSpec;
use crate::spec::launch::elementwise;

const OPERATOR: &str = "clamp";

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
    if x.device().is_cpu() {
        return from_cpu(x, cpu::clamp(x.host_f32().view(), spec));
    }
    once(OPERATOR, x, |program, x| append(program, x, spec))
}

/// Appends the operator to a program.
pub(crate) fn append(program: &mut ProgramBuilder, x: Value, spec: &ClampSpec) -> Result<Value> {
    let problem = spec.problem(program.shape(x))?;
    let (len, dtype) = (problem.len as u64, program.dtype(x));
    let shape = grid(OPERATOR, elementwise::shape(len))?;
    let y = program.tensor_like(x)?;
    let bytes_moved = program.bytes(&[x, y]);
    // SAFETY: both values have `len` elements.
    unsafe {
        let kernel = CLAMP.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (Read(x), Write(y), len, problem.kernel_bounds()),
            bytes_moved,
        );
    }
    Ok(y)
}
