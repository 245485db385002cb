//! What the operators have in common: argument checks and single runs, on either kind of device.

use super::ConvOptions;
use crate::chain::LayerProblem;
use crate::cpu;
use crate::device::{LaunchShape, Tensor};
use crate::error::{Error, Result};
use crate::program::{ProgramBuilder, Read, Value};

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

/// Does an operator by itself, with its parameters, which have names for errors, in PyTorch's order. `problem` is that of
/// `x` and of these.
pub(super) fn single(
    operator: &'static str,
    x: &Tensor,
    problem: LayerProblem,
    parameters: &[(&'static str, Option<&Tensor>)],
) -> Result<Tensor> {
    let options = ConvOptions::default();
    single_with(operator, x, problem, parameters, &options)
}

/// The same with options for convolutions.
pub(super) fn single_with(
    operator: &'static str,
    x: &Tensor,
    problem: LayerProblem,
    parameters: &[(&'static str, Option<&Tensor>)],
    options: &ConvOptions,
) -> Result<Tensor> {
    matching(operator, x, parameters)?;
    let parameter = |index: usize| parameters.get(index).and_then(|&(_, tensor)| tensor);
    let parameters = [0, 1].map(parameter);
    if x.device().is_cpu() {
        let [first, second] = parameters.map(|tensor| tensor.map(Tensor::host_f32).transpose());
        let values = [first?, second?];
        let values = values
            .each_ref()
            .map(|values| values.as_ref().map(|values| values.view()));
        let y = cpu::operator(&problem, values, x.host_f32()?.view());
        return Tensor::from_cpu(x.stream(), y, x.dtype());
    }
    let mut program = ProgramBuilder::new(x.device());
    let input = program.input(x.shape(), x.dtype())?;
    let values = parameters.map(|tensor| program.optional_parameter(tensor));
    let output = super::append(&mut program, input, &problem, values, options)?;
    let program = program.finish(&[output]);
    Ok(program.run_once(operator, x.stream(), &[x])?.remove(0))
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

    /// The same parameters of another program, `of`, as parameters of `program`.
    pub(super) fn known(self, of: &ProgramBuilder, program: &mut ProgramBuilder) -> Affine {
        let [weight, bias] = [self.weight, self.bias].map(|value| value.map(|v| of.known(v)));
        Affine::new(program, weight, bias)
    }

    /// The weight as a kernel's argument.
    pub(super) fn weight(self) -> Option<Read> {
        self.weight.map(Read)
    }

    /// The bias as a kernel's argument.
    pub(super) fn bias(self) -> Option<Read> {
        self.bias.map(Read)
    }
}

/// The shape of an optional tensor.
pub(super) fn shape_of(tensor: Option<&Tensor>) -> Option<&[usize]> {
    tensor.map(Tensor::shape)
}
