//! Runs of chains and networks on PyTorch tensors.
//!
//! Each run takes inputs and parameters, and keeps neither. If kernels need another layout, such as filters
//! as tensor-core operands, launches of the run itself create it in the workspace. A run therefore uses the
//! current contents of its tensors, in the order of PyTorch's current stream, regardless of who wrote them.
//! A captured CUDA graph reads the parameters at the addresses of the capture.
//!
//! A run of many launches whose tensors have addresses of an earlier run is launched as one CUDA graph.
//!
//! A *plan* is cached for each graph and layout of tensors: the selected and loaded launches. A run takes
//! outputs and workspace from PyTorch's allocator. During the capture of a graph, creating a plan is refused.

mod call;
mod kept;
mod plan;
mod recorded;
mod streams;

use crate::chains::graph;
use crate::torch::tensor::TorchTensor;

pub(crate) use call::Call;
pub(crate) use streams::must_not_be_forked;

/// Computes the outputs of a call.
///
/// # Errors
/// A message about the cause.
pub(crate) fn run(call: &Call<'_>) -> Result<Vec<TorchTensor>, String> {
    let (place, dtype) = call.kind()?;
    let run = || plan::run(call, place, dtype);
    call.torch.profiled(|| name(call.graph), run)
}

/// Returns the name of a run in profiles: its layers, or their number if there are many.
fn name(text: &str) -> String {
    const MOST: usize = 32;
    match graph(text) {
        Ok(graph) if graph.layers().len() > MOST => {
            format!("convfuse: a network of {} layers", graph.layers().len())
        }
        Ok(graph) => format!("convfuse: {}", graph.operators()),
        Err(words) => words,
    }
}

/// Returns the number of cached plans.
pub(crate) fn kept() -> usize {
    plan::PLANS.len()
}

/// Drops the cached plans. They are created again on demand.
pub(crate) fn clear() {
    plan::PLANS.clear();
}
