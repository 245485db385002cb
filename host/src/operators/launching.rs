//! Common functions of the operators: argument checks, launches, and single runs, on all devices.

use cuda_std::{Family, KernelArgs, Label};

use launch_config::AffineType;
use launch_config::conv::ChannelTile;
use op_spec::Layout;

use crate::cpu;
use crate::device::{DType, LaunchShape, Tensor};
use crate::error::Result;
use crate::graph::LayerProblem;
use crate::parameters::MAX_PARAMETERS;
use crate::program::{Arguments, ProgramBuilder, Value};

/// Appends a launch of the kernel of `family` with these labels, which computes `y`, and returns `y`.
///
/// # Safety
/// The safety rules of [`ProgramBuilder::launch_moving`].
pub(super) unsafe fn compute<A: KernelArgs>(
    program: &mut ProgramBuilder,
    family: &Family<A>,
    labels: &[Label],
    shape: Option<LaunchShape>,
    y: Value,
    arguments: impl Arguments<A>,
) -> Result<Value> {
    // SAFETY: the caller's promise.
    unsafe { program.launch(family, labels, shape, arguments)? }
    Ok(y)
}

/// The values of a layer's parameters in PyTorch's order, or its residual.
pub(crate) type Parameters = [Option<Value>; MAX_PARAMETERS];

/// The problem of an operator with kernels of its own.
pub(crate) trait OwnKernels {
    /// Appends the launches to a program. `x` and the parameters have the problem's shapes.
    ///
    /// # Errors
    /// Extents that no kernel can index; more blocks than a launch takes.
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value>;

    /// Whether a separate launch pads the input of a convolution.
    fn has_separate_padding(&self) -> bool {
        false
    }

    /// Appends the launch that pads `x`, `(n, c, *)`, if there is one.
    fn padded(&self, _: &mut ProgramBuilder, x: Value) -> Result<Value> {
        Ok(x)
    }

    /// The tile of a direct convolution.
    fn direct_tile(&self) -> Option<ChannelTile> {
        None
    }
}

/// The first parameter of an operator that is not optional.
pub(super) fn first(parameters: Parameters) -> Value {
    parameters[0].expect("the problem was made with the first parameter")
}

/// Runs a single operator with its parameters (named for errors) in PyTorch's order. `problem` belongs to `x`
/// and the parameters. Refuses parameters on another device than `x`, or of another element type.
pub(crate) fn single(
    operator: &'static str,
    x: &Tensor,
    problem: impl OwnKernels + Into<LayerProblem>,
    parameters: &[(&'static str, Option<&Tensor>)],
) -> Result<Tensor> {
    if x.device().is_cpu() {
        return on_cpu(operator, x, &problem.into(), parameters);
    }
    let parameters = checked(operator, x, parameters)?;
    let mut program = ProgramBuilder::new(x.device());
    let input = program.input(x.shape(), x.dtype(), &x.order()?)?;
    let values = parameters.each_ref();
    let values = values.map(|tensor| program.optional_parameter(tensor.as_ref()));
    let output = problem.append(&mut program, input, values)?;
    let program = program.finish(&[output]);
    Ok(program.run_once(operator, x.stream(), &[x])?.remove(0))
}

/// Runs an operator on the CPU, as [`single`].
pub(crate) fn on_cpu(
    operator: &'static str,
    x: &Tensor,
    problem: &LayerProblem,
    parameters: &[(&'static str, Option<&Tensor>)],
) -> Result<Tensor> {
    let parameters = checked(operator, x, parameters)?;
    // Refuses the strides that other devices refuse.
    x.order()?;
    let parameters = parameters.each_ref().map(Option::as_ref);
    let values = all(parameters.map(|tensor| tensor.map(Tensor::host_f32).transpose()))?;
    let values = values.each_ref().map(Option::as_ref);
    let y = cpu::operator(problem, values, x.host_f32()?.view())?;
    Tensor::from_cpu(x.stream(), y, x.dtype(), Layout::Nchw)
}

/// Returns the parameters of an operator, dense and on the stream of `x`. Refuses parameters on another
/// device, or of another element type.
pub(crate) fn checked(
    operator: &'static str,
    x: &Tensor,
    parameters: &[(&'static str, Option<&Tensor>)],
) -> Result<[Option<Tensor>; MAX_PARAMETERS]> {
    for &(argument, tensor) in parameters {
        let Some(tensor) = tensor else { continue };
        tensor.same_device((operator, argument), x.stream())?;
        tensor.must_hold(x.dtype(), (operator, argument))?;
    }
    let parameter = |index: usize| parameters.get(index).and_then(|&(_, tensor)| tensor);
    let parameters: [_; MAX_PARAMETERS] = std::array::from_fn(parameter);
    // Separate launches copy parameters that are not dense.
    let ordered = |tensor: Option<&Tensor>| {
        let tensor = tensor.map(|tensor| tensor.on(x.stream())?.contiguous());
        tensor.transpose()
    };
    all(parameters.map(ordered))
}

/// Runs an operator on `x`. If `x` has one dimension less than the `rank` of a batch, it is a batch of one
/// sample; the result has a batch dimension if `x` has.
pub(crate) fn with_or_without_batch(
    x: &Tensor,
    rank: usize,
    operator: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if x.shape().len() + 1 != rank {
        return operator(x);
    }
    let y = operator(&x.as_batch())?;
    let shape = y.shape()[1..].to_vec();
    Ok(y.reshaped(&shape)?.expect("results are dense"))
}

/// Returns all values, or the first error.
fn all<T>(values: [Result<Option<T>>; MAX_PARAMETERS]) -> Result<[Option<T>; MAX_PARAMETERS]> {
    let mut found = [const { None }; MAX_PARAMETERS];
    for (place, value) in found.iter_mut().zip(values) {
        *place = value?;
    }
    Ok(found)
}

/// The optional weight and bias of an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Affine {
    pub(crate) weight: Option<Value>,
    pub(crate) bias: Option<Value>,
}

impl Affine {
    /// The first two parameters of an operator.
    pub(super) const fn of([weight, bias, ..]: Parameters) -> Self {
        Self { weight, bias }
    }

    /// The element type of weight and bias in a norm of `x`.
    pub(crate) fn element_type(self, program: &ProgramBuilder, x: Value) -> AffineType {
        let stored = self.weight.or(self.bias);
        AffineType::of(stored.is_some_and(|value| program.dtype(value) != program.dtype(x)))
    }

    /// Rounds weight and bias to `dtype`, for kernels that support no other type.
    pub(crate) fn narrow(self, program: &mut ProgramBuilder, dtype: DType) -> Result<Self> {
        let mut narrow = |value: Option<Value>| {
            let value = value.map(|value| program.converted(value, dtype));
            value.transpose()
        };
        Ok(Affine {
            weight: narrow(self.weight)?,
            bias: narrow(self.bias)?,
        })
    }
}

/// The shape of an optional tensor.
pub(crate) fn shape_of(tensor: Option<&Tensor>) -> Option<&[usize]> {
    tensor.map(Tensor::shape)
}
