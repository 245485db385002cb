//! Runs of chains on PyTorch tensors.
//!
//! Each run takes inputs and parameters, and keeps neither. If kernels need another layout, such as filters
//! as tensor-core operands, launches of the run itself create it in the workspace. A run therefore uses the
//! current contents of its tensors, in the order of PyTorch's current stream, regardless of who wrote them.
//! A captured CUDA graph reads the parameters at the addresses of the capture.
//!
//! A *plan* is cached for each chain and layout of tensors: the selected and loaded launches. A run takes
//! output and workspace from PyTorch's allocator. During the capture of a graph, creating a plan is refused.

mod call;
mod kept;
mod plan;
mod streams;

use crate::chains::chain;
use crate::torch::tensor::TorchTensor;

pub(crate) use call::Call;
pub(crate) use streams::must_not_be_forked;

/// Computes the output of a call.
///
/// # Errors
/// A message about the cause.
pub(crate) fn run(call: &Call<'_>) -> Result<TorchTensor, String> {
    let (place, dtype) = call.kind()?;
    let run = || plan::run(call, place, dtype);
    call.torch.profiled(|| name(call.chain), run)
}

/// Returns the name of a run in profiles: the layers of its chain.
fn name(text: &str) -> String {
    let layers = chain(text).map(|chain| chain.operators());
    layers.map_or_else(|words| words, |layers| format!("convfuse: {layers}"))
}

/// Returns the number of cached plans.
pub(crate) fn kept() -> usize {
    plan::PLANS.len()
}

/// Drops the cached plans. They are created again on demand.
pub(crate) fn clear() {
    plan::PLANS.clear();
}
