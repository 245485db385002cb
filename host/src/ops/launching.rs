//! What the operators have in common: argument checks, dispatch on the element type, single runs, the CPU backend.

use ndarray::{Array, ArrayD, ArrayView1, CowArray, Dimension, Ix1};

use crate::device::{LaunchShape, Tensor};
use crate::error::{Error, Result};
use crate::program::{ProgramBuilder, Read, Value};
use crate::spec::SpecError;

/// Appends a launch of the kernel for an element type:
/// `launch!(program, dtype, shape, bytes_moved, module::{f32, f16, bf16}(arguments))`. Must stand in an `unsafe` block:
/// the arguments are the caller's to vouch for.
macro_rules! launch {
    ($program:expr, $dtype:expr, $shape:expr, $bytes_moved:expr,
     $($module:ident)::+ :: {$f32:ident, $f16:ident, $bf16:ident} ($($argument:expr),* $(,)?)) => {{
        use kernels_gpu::$($module)::+ as kernels;
        let (shape, bytes_moved) = ($shape, $bytes_moved);
        let arguments = ($($argument,)*);
        match $dtype {
            crate::device::DType::F32 => $program.launch::<kernels::$f32>(shape, arguments, bytes_moved),
            crate::device::DType::F16 => $program.launch::<kernels::$f16>(shape, arguments, bytes_moved),
            crate::device::DType::BF16 => $program.launch::<kernels::$bf16>(shape, arguments, bytes_moved),
        }
    }};
}
pub(super) use launch;

/// Appends a launch of the kernel for a stored type and a precision, of the module that is called `kernels` where this
/// stands: `launch_mode!(program, dtype, precision, {accurate, fast, f16, bf16}(shape, arguments, bytes_moved))`. Must
/// stand in an `unsafe` block, as [`launch!`].
macro_rules! launch_mode {
    ($program:expr, $dtype:expr, $precision:expr,
     {$accurate:ident, $fast:ident, $f16:ident, $bf16:ident}
     ($shape:expr, $arguments:expr, $bytes_moved:expr)) => {{
        use crate::device::DType;
        use crate::ops::Precision;
        let (shape, arguments, bytes_moved) = ($shape, $arguments, $bytes_moved);
        match ($dtype, $precision) {
            (DType::F32, Precision::Accurate) => {
                $program.launch::<kernels::$accurate>(shape, arguments, bytes_moved)
            }
            (DType::F32, Precision::Fast) => {
                $program.launch::<kernels::$fast>(shape, arguments, bytes_moved)
            }
            (DType::F16, _) => $program.launch::<kernels::$f16>(shape, arguments, bytes_moved),
            (DType::BF16, _) => $program.launch::<kernels::$bf16>(shape, arguments, bytes_moved),
        }
    }};
}
pub(super) use launch_mode;

/// The launch shape, if a grid can be that large.
pub(super) fn grid(operator: &'static str, shape: Option<LaunchShape>) -> Result<LaunchShape> {
    shape.ok_or(Error::TooManyBlocks { operator })
}

/// Refuses parameters that are on another device than the operator's input `x`, or have another element type.
pub(super) fn matching(
    operator: &'static str,
    x: &Tensor,
    parameters: &[(&'static str, Option<&Tensor>)],
) -> Result<()> {
    for &(argument, tensor) in parameters {
        let Some(tensor) = tensor else { continue };
        tensor.same_device(operator, argument, x.stream())?;
        if tensor.dtype() != x.dtype() {
            return Err(Error::DTypeMismatch {
                operator,
                argument,
                actual: tensor.dtype(),
                expected: x.dtype(),
            });
        }
    }
    Ok(())
}

/// Runs the operator that `append` appends, once, on the stream of its input `x`. Parameters of it are on the device
/// of `x`, as [`matching`] checks.
pub(super) fn once(
    operator: &'static str,
    x: &Tensor,
    append: impl FnOnce(&mut ProgramBuilder, Value) -> Result<Value>,
) -> Result<Tensor> {
    let mut program = ProgramBuilder::new(x.device());
    let input = program.input(x.shape(), x.dtype())?;
    let output = append(&mut program, input)?;
    let mut outputs = program
        .finish(&[output])
        .run_once(operator, x.stream(), &[x])?;
    Ok(outputs.remove(0))
}

/// The tensor of what the CPU backend computed, in the input's element type and on its stream.
pub(super) fn from_cpu<D: Dimension>(
    input: &Tensor,
    result: Result<Array<f32, D>, SpecError>,
) -> Result<Tensor> {
    let array: ArrayD<f32> = result?.into_dyn();
    Tensor::from_cpu(input.stream(), array, input.dtype())
}

/// The optional weight and bias of an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Affine {
    pub(crate) weight: Option<Value>,
    pub(crate) bias: Option<Value>,
}

impl Affine {
    /// Both as parameters of a program.
    pub(crate) fn new(
        program: &mut ProgramBuilder,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
    ) -> Affine {
        Affine {
            weight: program.optional_parameter(weight),
            bias: program.optional_parameter(bias),
        }
    }

    /// The weight as a kernel's argument.
    pub(super) fn weight(self) -> Option<Read> {
        self.weight.map(Read)
    }

    /// The bias as a kernel's argument.
    pub(super) fn bias(self) -> Option<Read> {
        self.bias.map(Read)
    }

    /// The shapes of both.
    pub(super) fn shapes(self, program: &ProgramBuilder) -> [Option<&[usize]>; 2] {
        [self.weight, self.bias].map(|value| value.map(|value| program.shape(value)))
    }

    /// Bytes of what there is.
    pub(super) fn bytes(self, program: &ProgramBuilder) -> u64 {
        let values = [self.weight, self.bias].into_iter().flatten();
        values.map(|value| program.bytes(&[value])).sum()
    }
}

/// A parameter's values for the CPU backend.
pub(super) fn on_host(parameter: Option<&Tensor>) -> Option<CowArray<'_, f32, Ix1>> {
    parameter.map(Tensor::host_f32_as)
}

/// A view of an optional array.
pub(super) fn view<'a>(array: &'a Option<CowArray<'_, f32, Ix1>>) -> Option<ArrayView1<'a, f32>> {
    array.as_ref().map(|array| array.view())
}

/// The shape of an optional tensor.
pub(super) fn shape_of(tensor: Option<&Tensor>) -> Option<&[usize]> {
    tensor.map(Tensor::shape)
}
