//! Runs of chains on tensors of PyTorch, and what is kept between them.
//!
//! An *owner* is a module with its chain. For each device and element type it has a *set* of parameters: a
//! model that was made of them, and plans, one for each shape and order of inputs. A set is made anew when a
//! parameter was written to, or lies elsewhere.
//!
//! A run that finds its plan takes the output and the workspace from PyTorch's allocator and launches, in the
//! order of PyTorch's current stream. Making a set or a plan waits for the device once, so that any stream
//! may use them afterwards; it is refused in the capture of a graph. Sets and plans of which a graph was
//! captured are kept as long as their owner.

mod call;
mod cpu;
mod gpu;
mod owners;
mod plans;
mod sets;
mod streams;

use crate::torch::tensor::TorchTensor;

pub(crate) use call::Call;
pub(crate) use cpu::must_not_be_forked;
pub(crate) use owners::{begin, forget, kept, release};

/// The output of a call.
///
/// # Errors
/// In words, what is wrong with it.
pub(crate) fn run(call: &Call<'_>) -> Result<TorchTensor, String> {
    let owner = owners::owner(call)?;
    let (place, dtype) = call.kind()?;
    match place.is_cuda {
        true => gpu::run(&owner, call, place, dtype),
        false => cpu::run(&owner, call, place, dtype),
    }
}
