//! Reductions over axes.
//!
//! A step reduces neighbouring values with the row kernel, or values apart from each other with the channel
//! kernel. Pixels of channels-last tensors have their own kernel. Long rows, many pixels, and axes that are
//! separated by others take several steps; values between two steps are f32.

use cuda_std::Label;
use kernels_gpu::channel_reduction::CHANNEL_REDUCTION;
use kernels_gpu::reduction::ROW_REDUCTION;
use kernels_gpu::reduction_nhwc::REDUCTION_NHWC;
use launch_config::ElementType;
use launch_config::channel_reduction::ChannelReductionGeometry;
use launch_config::reduction_nhwc::{PixelOperation, ReductionNhwcGeometry};
use launch_config::row_reduction::RowGeometry;
use op_spec::graph::Reduction;

use super::launching::{OwnKernels, Parameters, compute, single};
use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{Pass, ReductionOp, ReductionProblem, ReductionSpec};

/// `y` is the result of an operation on `x` over the axes `dim`, for each
/// [`ReductionOp`](crate::spec::ReductionOp): the largest value, for example.
///
/// *Shapes*: `(n, ..)` to the same without the axes, or, with `keepdim`, with an extent of 1 for each. `dim`
/// has any axes but the batch, and at least one value to reduce.
///
/// *Numerics*: a result that is one of the values is exact. Any other result is combined in f32, in an order
/// that depends on the layout but not on the batch, and rounded once. Exponentials are taken of the distance
/// to the largest value, so none overflows. A *NaN* among the values gives NaN.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for a rank below 2 or nothing to reduce, and for a `dim` that is
/// empty, has the batch, an axis that `x` lacks, or an axis twice.
///
/// # Examples
/// ```
/// use convfuse::spec::{ReductionOp, ReductionSpec};
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 5.0], [4.0, 2.0]]])?;
/// let largest = ReductionSpec::new(ReductionOp::Max, &[1]);
/// let y = ops::reduction(&x, &largest)?;
/// assert_eq!(y.to_array::<f32>()?, array![[4.0, 5.0]].into_dyn());
/// let mean = ReductionSpec::new(ReductionOp::Mean, &[1, 2]).keepdim(true);
/// let y = ops::reduction(&x, &mean)?;
/// assert_eq!(y.to_array::<f32>()?, array![[[3.0]]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As PyTorch's functions of the same names, such as
/// [`torch.amax`](https://docs.pytorch.org/docs/stable/generated/torch.amax.html).
pub fn reduction(x: &Tensor, spec: &ReductionSpec) -> Result<Tensor> {
    let problem = spec.problem(x.shape())?;
    single(spec.operation.name(), x, problem, &[])
}

/// One launch of a reduction.
#[derive(Debug, Clone, Copy)]
enum Step {
    Rows(RowGeometry),
    Channels(ChannelReductionGeometry),
    Pixels(ReductionNhwcGeometry),
}

/// The launches of a reduction, in order.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    operation: ReductionOp,
    dtype: DType,
    steps: Vec<Step>,
}

impl Steps {
    /// The steps of a reduction of tensors of `dtype`.
    fn of(problem: &ReductionProblem, dtype: DType) -> Result<Self> {
        let divisor = problem.count as f32;
        Self::of_passes(problem.passes(), problem.operation, divisor, dtype)
    }

    /// Returns the steps of passes, in order, over a tensor of `dtype`. The sum of a mean is divided by
    /// `divisor`.
    ///
    /// # Errors
    /// Extents that no kernel can index.
    pub(crate) fn of_passes(
        passes: &[Pass],
        operation: ReductionOp,
        divisor: f32,
        dtype: DType,
    ) -> Result<Self> {
        let mut steps = Vec::new();
        for pass in passes {
            if pass.inner == 1 {
                push_rows(&mut steps, pass.outer as u64, pass.reduced as u64);
            } else {
                let geometry = ChannelReductionGeometry::of(operation, pass)?;
                steps.push(Step::Channels(geometry));
            }
        }
        Ok(Self::with_results(steps, operation, divisor, dtype))
    }

    /// Returns the steps that sum each row of a tensor of `dtype` and divide by `divisor`.
    pub(super) fn of_rows(rows: u64, elements: u64, divisor: f32, dtype: DType) -> Self {
        let mut steps = Vec::new();
        push_rows(&mut steps, rows, elements);
        Self::with_results(steps, ReductionOp::Mean, divisor, dtype)
    }

    /// Returns the steps that reduce all pixels of each channel of a channels-last tensor, if there are
    /// kernels. The sum of a mean is divided by `divisor`.
    fn of_pixels(
        shape: &[usize],
        operation: ReductionOp,
        divisor: f32,
        dtype: DType,
    ) -> Option<Self> {
        let of_pixels = match operation {
            ReductionOp::Max => PixelOperation::Max,
            ReductionOp::Min => PixelOperation::Min,
            ReductionOp::Sum | ReductionOp::Mean => PixelOperation::Sum,
            _ => return None,
        };
        let [samples, channels, ref spatial @ ..] = *shape else {
            return None;
        };
        let channels = u32::try_from(channels).ok()?;
        let mut pixels = spatial.iter().product::<usize>() as u64;
        let mut steps = Vec::new();
        loop {
            let step = ReductionNhwcGeometry::new(of_pixels, samples as u64, channels, pixels);
            let step = step.ok()?;
            steps.push(Step::Pixels(step));
            if step.parts == 1 {
                return Some(Self::with_results(steps, operation, divisor, dtype));
            }
            pixels = step.parts.into();
        }
    }

    /// Returns the steps of an operator that reduces all pixels of each channel of a channels-last tensor, if
    /// there are kernels.
    pub(crate) fn of_channels_last(
        reduction: &Reduction,
        input: &[usize],
        dtype: DType,
    ) -> Option<Self> {
        let (operation, divisor) = match reduction {
            Reduction::Axes(of) if of.axes().eq(2..input.len()) => (of.operation, of.count as f64),
            Reduction::Pool(pool) => (ReductionOp::Mean, pool.of_whole_planes()?),
            _ => return None,
        };
        Self::of_pixels(input, operation, divisor as f32, dtype)
    }

    /// Adds to the steps the divisor of a mean, and the element types of their results.
    fn with_results(
        mut steps: Vec<Step>,
        operation: ReductionOp,
        divisor: f32,
        dtype: DType,
    ) -> Self {
        let last = steps.len() - 1;
        for (at, step) in steps.iter_mut().enumerate() {
            let output = match dtype {
                DType::F16 if at == last => ElementType::F16,
                DType::BF16 if at == last => ElementType::BF16,
                _ => ElementType::F32,
            };
            match step {
                Step::Rows(rows) => (rows.divisor, rows.output) = (divisor, output),
                Step::Channels(channels) => *channels = channels.with_results(divisor, output),
                Step::Pixels(pixels) => {
                    if at == last && operation == ReductionOp::Mean {
                        pixels.divisor = divisor;
                    }
                    pixels.output = output;
                }
            }
        }
        Self {
            operation,
            dtype,
            steps,
        }
    }

    /// Appends the reduction of `x` to a program. The result has the shape `output`.
    pub(crate) fn append(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
        output: &[usize],
    ) -> Result<Value> {
        let (mut x, last) = (x, self.steps.len() - 1);
        for (at, step) in self.steps.iter().enumerate() {
            let dtype = if at == 0 { self.dtype } else { DType::F32 };
            let operation = self.operation.of_step(at, self.steps.len());
            let labels = [label(operation), dtype.label()];
            let y = if at == last {
                program.tensor(output, self.dtype)?
            } else {
                let results = match step {
                    Step::Rows(rows) => rows.results(),
                    Step::Channels(channels) => channels.n * channels.spatial,
                    Step::Pixels(pixels) => pixels.results(),
                };
                let results = usize::try_from(results).unwrap_or(usize::MAX);
                program.tensor(&[results], DType::F32)?
            };
            // SAFETY: `x` has the elements of the step's geometry, and `y` the elements and the type of its
            // results.
            x = unsafe {
                match *step {
                    Step::Rows(rows) => {
                        let (shape, arguments) = (rows.shape(), (x, y, rows));
                        compute(program, &ROW_REDUCTION, &labels, shape, y, arguments)?
                    }
                    Step::Channels(channels) => {
                        let (shape, arguments) = (channels.shape(), (x, y, channels));
                        compute(program, &CHANNEL_REDUCTION, &labels, shape, y, arguments)?
                    }
                    Step::Pixels(pixels) => {
                        let (shape, arguments) = (pixels.shape(), (x, y, pixels));
                        compute(program, &REDUCTION_NHWC, &labels[1..], shape, y, arguments)?
                    }
                }
            };
        }
        Ok(x)
    }
}

/// Adds the steps that reduce rows. A long row is reduced in parts, whose results form a row for the next
/// step.
fn push_rows(steps: &mut Vec<Step>, rows: u64, elements: u64) {
    let mut elements = elements;
    loop {
        let geometry = RowGeometry::new(rows, elements);
        steps.push(Step::Rows(geometry));
        if geometry.parts <= 1 {
            return;
        }
        elements = geometry.parts;
    }
}

impl OwnKernels for ReductionProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, _: Parameters) -> Result<Value> {
        let output = self.output_shape(program.shape(x));
        Steps::of(self, program.dtype(x))?.append(program, x, &output)
    }
}

/// The kernels' label of an operation: its name.
const fn label(operation: ReductionOp) -> Label {
    Label::Name(operation.name())
}

/// The channel reduction at the end of a fusion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfChannels {
    problem: ReductionProblem,
    pub(super) geometry: ChannelReductionGeometry,
}

impl OfChannels {
    /// Returns the reduction of the problem, if it reduces only the channels and there are kernels.
    pub(crate) fn new(problem: &ReductionProblem) -> Option<Self> {
        let geometry = ChannelReductionGeometry::of(problem.operation, &problem.of_channels()?);
        Some(Self {
            problem: *problem,
            geometry: geometry.ok()?,
        })
    }

    /// The operation on the channels.
    pub(crate) fn operation(&self) -> ReductionOp {
        self.problem.operation
    }

    /// The labels of the kernels that reduce tensors of `dtype`.
    pub(super) fn labels(&self, dtype: DType) -> [Label; 2] {
        [label(self.operation()), dtype.label()]
    }

    /// Allocates the tensor of the reduced channels of `x`.
    pub(super) fn output(&self, program: &mut ProgramBuilder, x: Value) -> Result<Value> {
        let shape = self.problem.output_shape(program.shape(x));
        program.tensor(&shape, program.dtype(x))
    }
}
