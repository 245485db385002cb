//! Softmax and log softmax, with a list after them.

use kernels_gpu::softmax::SOFTMAX;
use launch_config::pointwise::OperandList;
use launch_config::softmax::SoftmaxGeometry;

use super::batch_norm_parameters::Folded;
use super::launching::{OwnKernels, Parameters, compute, single};
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{LogSoftmaxProblem, LogSoftmaxSpec, SoftmaxProblem, SoftmaxSpec};

/// `y = e^x / sum(e^x)`, with the sum over `dim`. Several neighbouring axes count as one.
///
/// *Shapes*: `(n, ..)` to the same; `dim` has any axes but the batch.
///
/// *Numerics*: exponentials are taken of the distance to the largest value, so none overflows. They are
/// summed in f32, in an order that does not depend on the batch, and results are rounded once. Values that
/// share a sum are all NaN if one of them is *NaN* or infinity, or if all are minus infinity.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for a rank below 2, and for a `dim` that is empty, has the batch, an
/// axis that `x` lacks, an axis twice, or axes that are not neighbours.
///
/// # Examples
/// ```
/// use convfuse::spec::SoftmaxSpec;
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[0.5f32, 0.5, f32::NEG_INFINITY]])?;
/// let y = ops::softmax(&x, &SoftmaxSpec::new(&[1]))?;
/// assert_eq!(y.to_array::<f32>()?, array![[0.5, 0.5, 0.0]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.softmax`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html).
pub fn softmax(x: &Tensor, spec: &SoftmaxSpec) -> Result<Tensor> {
    let problem = spec.problem(x.shape())?;
    single("softmax", x, problem, &[])
}

/// `y = x - ln(sum(e^x))` with the sum over `dim`: the logarithm of [`softmax`], even where the softmax is 0
/// in f32.
///
/// *Shapes*, *Numerics*, *NaN*: as [`softmax`].
///
/// # Errors
/// As [`softmax`].
///
/// # Examples
/// ```
/// use convfuse::spec::LogSoftmaxSpec;
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[0.5f32, -199.5]])?;
/// let y = ops::log_softmax(&x, &LogSoftmaxSpec::new(&[1]))?;
/// assert_eq!(y.to_array::<f32>()?, array![[0.0, -200.0]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.log_softmax`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html).
pub fn log_softmax(x: &Tensor, spec: &LogSoftmaxSpec) -> Result<Tensor> {
    let problem = spec.problem(x.shape())?;
    single("log_softmax", x, problem, &[])
}

/// A list with its operands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands {
    pub(crate) list: OperandList,
    pub(crate) residual: Option<Value>,
    pub(crate) folded: Option<Folded>,
}

impl Operands {
    /// A list that changes nothing, without operands.
    pub(crate) const NONE: Self = Self {
        list: OperandList::EMPTY,
        residual: None,
        folded: None,
    };

    /// The gains and the shifts of the channels, if the list has them.
    pub(super) fn gain_and_shift(&self) -> (Option<Value>, Option<Value>) {
        self.folded
            .map(|Folded { gain, shift }| (gain, shift))
            .unzip()
    }
}

/// Appends the operator and the list after it to a program. The residual has the layout of `x`.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    geometry: SoftmaxGeometry,
    operands: Operands,
) -> Result<Value> {
    let y = program.tensor_like(x)?;
    let (gain, shift) = operands.gain_and_shift();
    let (residual, list) = (operands.residual, operands.list);
    let arguments = (x, residual, gain, shift, y, geometry, list);
    let (label, shape) = (program.label(x), geometry.series.shape());
    // SAFETY: `x`, `y` and the residual have the elements of the geometry; the list's gain and shift have a
    // value for each channel.
    unsafe { compute(program, &SOFTMAX, &label, shape, y, arguments) }
}

impl OwnKernels for SoftmaxProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, _: Parameters) -> Result<Value> {
        let geometry = SoftmaxGeometry::of(self, false)?;
        append(program, x, geometry, Operands::NONE)
    }
}

impl OwnKernels for LogSoftmaxProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value> {
        self.softmax.append(program, x, given)
    }
}
