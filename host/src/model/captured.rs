//! Plans as CUDA graphs.

use std::fmt;

use ndarray::{ArrayBase, Data, Dimension};

use super::Plan;
use crate::device::{GpuGraph, Tensor};
use crate::error::Result;

/// A plan with its input and output as one CUDA graph: a replay costs the host one call, however many launches it has.
///
/// Made by [`Plan::capture`]. It owns all memory that the graph refers to; dropping it waits for the last replay.
///
/// # Examples
/// ```
/// use convfuse::chain::presets::KernelBench79;
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
    // Dropped first: it waits for what it works on.
    graph: GpuGraph,
    plan: Plan,
    x: Tensor,
    y: Tensor,
}

const OPERATOR: &str = "captured plan";

impl Captured {
    pub(super) fn new(mut plan: Plan, x: Tensor) -> Result<Self> {
        let stream = plan.stream().clone();
        x.must_belong_to(&stream, OPERATOR, "input")?;
        let mut y = plan.output()?;
        let graph = stream.capture(|_| plan.execute(&x, &mut y))?;
        Ok(Captured { graph, plan, x, y })
    }

    /// Overwrites the input, in stream order, and returns once `values` has been read.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`]; [`Error::TensorInUse`] while other handles share the input.
    pub fn write<S: Data<Elem = f32>, D: Dimension>(
        &mut self,
        values: &ArrayBase<S, D>,
    ) -> Result<()> {
        self.x.overwrite(OPERATOR, "input", values)
    }

    /// Queues one run on the plan's stream.
    ///
    /// # Errors
    /// [`Error::TensorInUse`] while other handles share the output.
    pub fn replay(&mut self) -> Result<()> {
        self.y.rewrite(OPERATOR, "output", self.plan.stream())?;
        self.graph.launch()
    }

    /// The output of the last replay. A replay refuses to write to it while a clone of it is held.
    pub fn output(&self) -> &Tensor {
        &self.y
    }
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Captured")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
