//! `scale`, moved into the weight and bias of the norm before it.

use kernels_gpu::fused::fold_scale::FOLD_SCALE;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::launching::{Affine, grid, matching, shape_of};
use crate::program::{ProgramBuilder, Read, Write};
use crate::spec::launch::elementwise;
use crate::spec::{Quantity, ScaleSpec, SpecError};

const OPERATOR: &str = "fold_scale";

/// `(weight * scale, bias * scale)`, with 1 and 0 for what is absent: the parameters of a norm that scales by itself.
///
/// `norm(x, weight, bias) * scale` and `norm(x, weight * scale, bias * scale)` are equal up to rounding where all are
/// finite. An infinite scale meets a zero bias here (NaN), and meets it never in the composition.
///
/// *Shapes*: all `(c)`, outputs too.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for lengths that differ, [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let vector = |values| Tensor::from_array(&stream, &values);
/// let (weight, scale) = (vector(array![1.0f32, 2.0])?, vector(array![3.0f32, -1.0])?);
/// let (weight, bias) = ops::fold_scale(Some(&weight), None, &scale)?;
/// assert_eq!(weight.to_array::<f32>()?, array![3.0, -2.0].into_dyn());
/// assert_eq!(bias.to_array::<f32>()?, array![0.0, 0.0].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn fold_scale(
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    scale: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let channels = scale.len();
    // A vector of factors is what scales a tensor of that many channels; its rank and length follow from that.
    ScaleSpec.problem(&[0, channels], scale.shape())?;
    for (name, parameter) in [("weight", shape_of(weight)), ("bias", shape_of(bias))] {
        match parameter {
            Some(&[len]) if len != channels => {
                let quantity = Quantity::entry(name, 0);
                return Err(SpecError::Mismatch {
                    operator: OPERATOR,
                    quantity,
                    actual: len,
                    expected: channels,
                }
                .into());
            }
            Some(shape) if shape.len() != 1 => {
                ScaleSpec.problem(&[0, channels], shape)?;
            }
            _ => {}
        }
    }
    let stream = scale.stream();
    matching(OPERATOR, scale, &[("weight", weight), ("bias", bias)])?;
    if scale.device().is_cpu() {
        let factors = scale.host_f32();
        let folded = |parameter: Option<&Tensor>, absent: f32| {
            let values = match parameter {
                Some(parameter) => &parameter.host_f32() * &factors,
                None => factors.map(|factor| absent * factor),
            };
            Tensor::from_cpu(stream, values, scale.dtype())
        };
        return Ok((folded(weight, 1.0)?, folded(bias, 0.0)?));
    }
    let len = u32::try_from(channels).map_err(|_| SpecError::BeyondKernel {
        operator: OPERATOR,
        quantity: Quantity::scalar("channels"),
        actual: channels,
        limit: u32::MAX as usize,
    })?;
    let shape = grid(OPERATOR, elementwise::fold_shape(len))?;
    let mut program = ProgramBuilder::new(scale.device());
    let affine = Affine::new(&mut program, weight, bias);
    let factors = program.parameter(scale);
    let folded_weight = program.tensor(&[channels], scale.dtype())?;
    let folded_bias = program.tensor(&[channels], scale.dtype())?;
    let outputs = [folded_weight, folded_bias];
    let bytes_moved = program.bytes(&[factors]) + program.bytes(&outputs) + affine.bytes(&program);
    // SAFETY: all values that exist have `len` elements, and the flags say which do.
    unsafe {
        let kernel = FOLD_SCALE.instance(&[scale.dtype().label()])?;
        program.launch(
            kernel,
            shape,
            (
                affine.weight(),
                affine.bias(),
                Read(factors),
                Write(folded_weight),
                Write(folded_bias),
                len,
                u32::from(weight.is_some()),
                u32::from(bias.is_some()),
            ),
            bytes_moved,
        );
    }
    let mut folded = program.finish(&outputs).run_once(OPERATOR, stream, &[])?;
    let bias = folded.remove(1);
    Ok((folded.remove(0), bias))
}
