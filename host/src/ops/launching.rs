//! What the operators have in common: argument checks, dispatch on the element type, the CPU backend.

use cuda_std::{Family, KernelArgs, Label};
use ndarray::{Array, ArrayD, ArrayView1, CowArray, Dimension, Ix1};

use crate::device::{DType, LaunchShape, Reading, Stream, Tensor};
use crate::error::{Error, Result};
use crate::spec::SpecError;

/// Launches the instance of `family` with these labels. Does nothing for a launch without blocks.
///
/// # Safety
/// As [`Stream::launch`].
pub(super) unsafe fn launch<A: KernelArgs>(
    stream: &Stream,
    family: &Family<A>,
    labels: &[Label],
    shape: LaunchShape,
    arguments: A,
) -> Result<()> {
    if shape.is_empty() {
        return Ok(());
    }
    // SAFETY: handed on to the caller.
    unsafe { stream.launch(family.instance(labels)?, shape, arguments) }
}

/// The launch shape, if a grid can be that large.
pub(super) fn grid(operator: &'static str, shape: Option<LaunchShape>) -> Result<LaunchShape> {
    shape.ok_or(Error::TooManyBlocks { operator })
}

/// Refuses a parameter whose element type is not the input's.
pub(super) fn same_dtype(
    operator: &'static str,
    argument: &'static str,
    tensor: &Tensor,
    expected: DType,
) -> Result<()> {
    let actual = tensor.dtype();
    if actual == expected {
        return Ok(());
    }
    Err(Error::DTypeMismatch {
        operator,
        argument,
        actual,
        expected,
    })
}

/// The tensor of what the CPU backend computed, in the input's element type and on its stream.
pub(super) fn from_cpu<D: Dimension>(
    input: &Tensor,
    result: Result<Array<f32, D>, SpecError>,
) -> Result<Tensor> {
    let array: ArrayD<f32> = result?.into_dyn();
    Tensor::from_cpu(input.stream(), array, input.dtype())
}

/// Bytes of all the tensors together.
pub(super) fn bytes(tensors: &[&Tensor]) -> u64 {
    tensors.iter().map(|tensor| tensor.bytes()).sum()
}

/// A tensor that was checked against the operator's input and is open for the input's stream.
pub(super) struct Argument<'a> {
    pub(super) tensor: &'a Tensor,
    reading: Reading<'a>,
}

impl<'a> Argument<'a> {
    /// The input itself, which nothing has to be checked against.
    pub(super) fn input(operator: &'static str, x: &'a Tensor) -> Result<Argument<'a>> {
        Argument::open(operator, "input", x, x)
    }

    /// A parameter of the operator whose input is `x`.
    pub(super) fn open(
        operator: &'static str,
        argument: &'static str,
        tensor: &'a Tensor,
        x: &Tensor,
    ) -> Result<Argument<'a>> {
        let reading = tensor.read_on(operator, argument, x.stream())?;
        same_dtype(operator, argument, tensor, x.dtype())?;
        Ok(Argument { tensor, reading })
    }

    /// The address for kernels to read from.
    pub(super) fn pointer<T>(&self) -> *const T {
        self.reading.pointer()
    }
}

/// The optional weight and bias of an operator.
pub(super) struct Affine<'a> {
    weight: Option<Argument<'a>>,
    bias: Option<Argument<'a>>,
}

impl<'a> Affine<'a> {
    pub(super) fn open(
        operator: &'static str,
        x: &Tensor,
        weight: Option<&'a Tensor>,
        bias: Option<&'a Tensor>,
    ) -> Result<Affine<'a>> {
        let open = |argument, tensor| Argument::open(operator, argument, tensor, x);
        Ok(Affine {
            weight: weight.map(|tensor| open("weight", tensor)).transpose()?,
            bias: bias.map(|tensor| open("bias", tensor)).transpose()?,
        })
    }

    /// The weight's address, null if there is none.
    pub(super) fn weight<T>(&self) -> *const T {
        self.weight
            .as_ref()
            .map_or(std::ptr::null(), Argument::pointer)
    }

    /// The bias' address, null if there is none.
    pub(super) fn bias<T>(&self) -> *const T {
        self.bias
            .as_ref()
            .map_or(std::ptr::null(), Argument::pointer)
    }

    /// Bytes of what there is.
    pub(super) fn bytes(&self) -> u64 {
        [&self.weight, &self.bias]
            .into_iter()
            .flatten()
            .map(|argument| argument.tensor.bytes())
            .sum()
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
