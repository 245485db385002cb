//! Plans as CUDA graphs.

use std::fmt;

use ndarray::{ArrayBase, Data, Dimension};
#[cfg(doc)]
use op_spec::graph::Graph;

use super::Plan;
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
    pub(super) graph: GpuGraph,
    pub(super) plan: Plan,
    /// The tensors of all inputs, in the graph's order.
    pub(super) inputs: Vec<Tensor>,
    pub(super) outputs: Vec<Tensor>,
}

pub(super) const CAPTURED: &str = "captured plan";

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
