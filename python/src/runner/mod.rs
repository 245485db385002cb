//! Runs of chains on tensors of PyTorch.
//!
//! Each run is given inputs and parameters. Nothing of either is kept: what kernels take in another layout,
//! such as filters as tensor core operands, is made by launches of the run itself, in its workspace. So a run
//! computes with what its tensors hold at that time, in the order of PyTorch's current stream, whoever wrote
//! to them, and a captured CUDA graph reads parameters where it was captured with them.
//!
//! A *plan* is kept for each chain and layout of tensors: the launches, chosen and loaded. A run takes output
//! and workspace from PyTorch's allocator. Making a plan is refused in the capture of a graph.

mod call;
mod kept;
mod plan;
mod streams;

use crate::chains::chain;
use crate::torch::tensor::TorchTensor;

pub(crate) use call::Call;
pub(crate) use streams::must_not_be_forked;

/// The output of a call.
///
/// # Errors
/// In words, what is wrong with it.
pub(crate) fn run(call: &Call<'_>) -> Result<TorchTensor, String> {
    let (place, dtype) = call.kind()?;
    let run = || plan::run(call, place, dtype);
    call.torch.profiled(|| name(call.chain), run)
}

/// What a run is called in profiles: the layers of its chain.
fn name(text: &str) -> String {
    let layers = chain(text).map(|chain| chain.operators());
    layers.map_or_else(|words| words, |layers| format!("convfuse: {layers}"))
}

/// How many plans are kept.
pub(crate) fn kept() -> usize {
    plan::PLANS.len()
}

/// Drops the plans that are kept. They are made again when they are needed.
pub(crate) fn clear() {
    plan::PLANS.clear();
}
