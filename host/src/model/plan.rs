//! Runs that were prepared.

use std::sync::Arc;

use super::{Captured, Explanation, Model, Options};
use crate::device::{DType, Stream, Tensor};
use crate::error::{Error, Result};
use crate::program::Program;

/// A model for inputs of one shape on one stream, with its memory.
///
/// [`execute`](Plan::execute) only launches: it allocates nothing, waits for nothing, and calls nothing that CUDA graph
/// capture forbids. Several plans run side by side on several streams. The CPU device is the exception: its backend
/// allocates what it computes in every run.
///
/// Between runs a plan holds one allocation, in which intermediate tensors share the bytes of those that nobody reads
/// any more: as much as a single run takes at its peak, less the output.
///
/// # Examples
/// ```
/// use convfuse::chain::presets::KernelBench79;
/// use convfuse::{Device, Model, Options, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let model = Model::init(&stream, &KernelBench79::default().chain()?, 7)?;
/// let mut plan = model.plan(&stream, &[1, 3, 5, 6, 7], &Options::default())?;
/// let mut y = plan.output()?;
/// for seed in 0..3 {
///     let x = Tensor::from_array(&stream, &data::fill(seed, (1, 3, 5, 6, 7)))?;
///     plan.execute(&x, &mut y)?;
///     println!("{}", y.to_array::<f32>()?.sum());
/// }
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Debug)]
pub struct Plan {
    model: Model,
    options: Options,
    stream: Stream,
    input: Vec<usize>,
    output: Vec<usize>,
    /// What runs, and its memory; nothing on the CPU device, whose backend runs no kernels.
    program: Option<(Arc<Program>, Tensor)>,
}

pub(super) const OPERATOR: &str = "plan";

impl Plan {
    /// The plan of `program`, for inputs and outputs of these shapes; without a program on the CPU device.
    pub(super) fn new(
        model: &Model,
        stream: &Stream,
        options: &Options,
        [input, output]: [Vec<usize>; 2],
        program: Option<Arc<Program>>,
    ) -> Result<Plan> {
        let with_memory = |program: Arc<Program>| {
            program.load(OPERATOR, stream)?;
            let workspace = program.workspace(stream)?;
            Ok::<_, Error>((program, workspace))
        };
        Ok(Plan {
            program: program.map(with_memory).transpose()?,
            model: model.clone(),
            options: options.clone(),
            stream: stream.clone(),
            input,
            output,
        })
    }

    /// A tensor for the output, allocated on the plan's stream.
    pub fn output(&self) -> Result<Tensor> {
        Tensor::zeros(&self.stream, &self.output, self.model.dtype())
    }

    /// Queues one run from `x` to `y` on the plan's stream.
    ///
    /// An input that belongs to another stream is waited for on the device. `y` must be this stream's own, and nobody
    /// else's: [`output`](Plan::output) makes such tensors.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::Error::ShapeMismatch) and [`DTypeMismatch`](crate::Error::DTypeMismatch) for tensors that
    /// the plan was not made for, [`DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`TensorInUse`](crate::Error::TensorInUse). On a stream that is being captured also
    /// [`ForeignInCapture`](crate::Error::ForeignInCapture) for an input of another stream.
    pub fn execute(&mut self, x: &Tensor, y: &mut Tensor) -> Result<()> {
        if let Some((program, workspace)) = &mut self.program {
            return program.run(OPERATOR, &self.stream, &[x], &mut [y], workspace);
        }
        let dtype = self.model.dtype();
        x.must_be(&self.input, dtype, OPERATOR, "input")?;
        y.must_be(&self.output, dtype, OPERATOR, "output")?;
        x.same_device(OPERATOR, "input", &self.stream)?;
        y.rewrite(OPERATOR, "output", &self.stream)?;
        *y = self.model.run_on_cpu(&x.on(&self.stream)?)?;
        Ok(())
    }

    /// The plan as a CUDA graph that reads `x`, a tensor of the plan's own stream.
    ///
    /// Whoever captures a stream by the driver's own calls instead can call [`execute`](Plan::execute) there, and must keep
    /// plan, model, input and output until the graph has run for the last time.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) where the device is no GPU; [`TensorInUse`](crate::Error::TensorInUse) for an
    /// input of another stream; those of [`execute`](Plan::execute).
    pub fn capture(self, x: Tensor) -> Result<Captured> {
        Captured::new(self, x)
    }

    /// What the plan launches, and why.
    ///
    /// # Errors
    /// As [`Model::explain`].
    pub fn explain(&self) -> Result<Explanation> {
        self.model.explain(&self.input, &self.options)
    }

    /// The stream that the plan runs on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Bytes of device memory that the plan holds between runs: intermediates and workspaces.
    pub fn workspace_bytes(&self) -> u64 {
        self.program
            .as_ref()
            .map_or(0, |(_, workspace)| workspace.bytes())
    }

    /// The shape that the plan was made for.
    pub fn input_shape(&self) -> &[usize] {
        &self.input
    }

    /// The shape of what it computes.
    pub fn output_shape(&self) -> &[usize] {
        &self.output
    }

    /// The element type of both.
    pub fn dtype(&self) -> DType {
        self.model.dtype()
    }
}
