//! Plans as CUDA graphs.

use std::fmt;

use ndarray::{ArrayBase, Data, Dimension};
#[cfg(doc)]
use op_spec::graph::Graph;

use super::{Inputs, Plan};
use crate::device::{GpuGraph, Tensor};
use crate::error::{InputsError, Result};

/// A plan with its inputs and output as one CUDA graph. A replay costs the host one call, for any number of
/// launches.
///
/// Made by [`Plan::capture`]. It owns all memory that the graph refers to; dropping it waits for the last
/// replay.
///
/// # Examples
/// ```
/// use convfuse::graph::presets::KernelBench79;
/// use convfuse::{Device, Model, Options, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let model = Model::init(&stream, &KernelBench79::default().chain()?, 7)?;
/// let plan = model.plan(&stream, &[1, 3, 5, 6, 7], &Options::default())?;
/// let x = Tensor::from_array(&stream, &data::fill(0, (1, 3, 5, 6, 7)))?;
/// match plan.capture(x) {
///     Ok(mut captured) => {
///         for seed in 0..3 {
///             captured.write(&data::fill(seed, (1, 3, 5, 6, 7)))?;
///             captured.replay()?;
///             println!("{}", captured.output().to_array::<f32>()?.sum());
///         }
///     }
///     Err(error) => println!("{error}"), // where there is no GPU
/// }
/// # Ok::<(), convfuse::Error>(())
/// ```
pub struct Captured {
    // The graph is dropped first, because dropping it waits for work on the other fields.
    graph: GpuGraph,
    plan: Plan,
    /// The tensors of all inputs, in the graph's order.
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

const CAPTURED: &str = "captured plan";

impl Plan {
    /// Captures the plan as a CUDA graph that reads `inputs`, which are tensors of the plan's stream, and
    /// writes to its own output.
    ///
    /// To capture with the driver's own calls, call [`execute`](Self::execute) during the capture. Keep plan,
    /// model, input and output until the graph has run for the last time.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) if the device is not a GPU;
    /// [`TensorInUse`](crate::Error::TensorInUse) for an input of another stream; the errors of
    /// [`execute`](Self::execute).
    pub fn capture(self, inputs: impl Into<Inputs<Tensor>>) -> Result<Captured> {
        let outputs = self.outputs()?;
        self.capture_all_into(inputs, outputs)
    }

    /// [`capture`](Self::capture) with an existing output, for example over memory of another library.
    ///
    /// # Errors
    /// As [`capture`](Self::capture); for the output, the errors of [`execute`](Self::execute).
    pub fn capture_into(self, inputs: impl Into<Inputs<Tensor>>, y: Tensor) -> Result<Captured> {
        self.capture_all_into(inputs, vec![y])
    }

    /// [`capture_into`](Self::capture_into) with all outputs of the graph, in the order of
    /// [`Graph::outputs`].
    ///
    /// # Errors
    /// As [`capture_into`](Self::capture_into); [`InputsError::Outputs`] for another number of outputs.
    pub fn capture_all_into(
        self,
        inputs: impl Into<Inputs<Tensor>>,
        mut outputs: Vec<Tensor>,
    ) -> Result<Captured> {
        self.must_be_outputs(CAPTURED, outputs.len())?;
        let inputs = inputs.into().arranged(CAPTURED, self.graph().inputs())?;
        let stream = self.stream().clone();
        for y in &mut outputs {
            y.rewrite((CAPTURED, "output"), &stream)?;
        }
        let graph = stream.capture(|recorder| match &self.program {
            Some(program) => {
                let inputs: Vec<&Tensor> = inputs.iter().collect();
                let outputs: Vec<&Tensor> = outputs.iter().collect();
                program.record(CAPTURED, recorder, &inputs, &outputs)
            }
            None => Ok(()),
        })?;
        Ok(Captured {
            graph,
            plan: self,
            inputs,
            outputs,
        })
    }
}

impl Captured {
    /// Overwrites the first input, in stream order, and returns once `values` has been read.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::Error::ShapeMismatch); [`TensorInUse`](crate::Error::TensorInUse) while other
    /// handles share the input.
    pub fn write<S: Data<Elem = f32>, D: Dimension>(
        &mut self,
        values: &ArrayBase<S, D>,
    ) -> Result<()> {
        self.inputs[0].overwrite((CAPTURED, "input"), values)
    }

    /// Overwrites the further input of this name, like [`write`](Self::write).
    ///
    /// # Errors
    /// [`InputsError::Unknown`](crate::InputsError::Unknown); the errors of [`write`](Self::write) for that
    /// input, as [`NamedInput`](crate::Error::NamedInput).
    pub fn write_input<S: Data<Elem = f32>, D: Dimension>(
        &mut self,
        name: &str,
        values: &ArrayBase<S, D>,
    ) -> Result<()> {
        let names = self.plan.graph().inputs();
        let Some(index) = names.iter().position(|known| known == name) else {
            return Err(InputsError::Unknown {
                operator: CAPTURED,
                name: name.to_owned(),
                known: names.to_vec(),
            }
            .into());
        };
        let written = self.inputs[1 + index].overwrite((CAPTURED, "input"), values);
        written.map_err(|error| error.of_input(name))
    }

    /// Queues one run on the plan's stream.
    ///
    /// # Errors
    /// [`TensorInUse`](crate::Error::TensorInUse) while other handles share the output.
    pub fn replay(&mut self) -> Result<()> {
        for y in &mut self.outputs {
            y.rewrite((CAPTURED, "output"), self.plan.stream())?;
        }
        self.graph.launch()
    }

    /// Returns the first output of the last replay. A replay refuses to overwrite it while a clone of it
    /// exists.
    pub fn output(&self) -> &Tensor {
        &self.outputs[0]
    }

    /// Returns all outputs of the last replay, in the order of [`Graph::outputs`].
    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Captured")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
