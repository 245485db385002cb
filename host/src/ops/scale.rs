//! Multiplication by one factor per channel.

use ndarray::Ix1;

use super::launching::{from_cpu, grid, matching, once};
use kernels_gpu::scale::SCALE;

use crate::cpu;
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::ScaleSpec;
use crate::spec::launch::elementwise;

const OPERATOR: &str = "scale";

/// `y[n, c, ..] = x[n, c, ..] * scale[c]`.
///
/// *Shapes*: `x` is `(n, c, *)`, `scale` is `(c)`; the output has the input's shape. In PyTorch this is
/// `x * scale.view(-1, 1, ..)`.
///
/// *Numerics*: one rounding. *NaN* and infinities follow IEEE 754 (`0 * inf` is NaN).
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for ranks and lengths that do not fit,
/// [`Error::DTypeMismatch`](crate::Error::DTypeMismatch), [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
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
    ScaleSpec.problem(x.shape(), scale.shape())?;
    matching(OPERATOR, x, &[("scale", Some(scale))])?;
    if x.device().is_cpu() {
        let factors = scale.host_f32_as::<Ix1>();
        return from_cpu(x, cpu::scale(x.host_f32().view(), factors.view()));
    }
    once(OPERATOR, x, |program, x| {
        let scale = program.parameter(scale);
        append(program, x, scale)
    })
}

/// Appends the operator to a program.
pub(crate) fn append(program: &mut ProgramBuilder, x: Value, scale: Value) -> Result<Value> {
    let problem = ScaleSpec.problem(program.shape(x), program.shape(scale))?;
    let (geometry, dtype) = (problem.geometry()?, program.dtype(x));
    let shape = grid(OPERATOR, elementwise::shape(geometry.elements))?;
    let y = program.tensor_like(x)?;
    let bytes_moved = program.bytes(&[x, scale, y]);
    // SAFETY: `x` and `y` have `geometry.elements` elements, `scale` one per channel.
    unsafe {
        let kernel = SCALE.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (Read(x), Read(scale), Write(y), geometry),
            bytes_moved,
        );
    }
    Ok(y)
}
