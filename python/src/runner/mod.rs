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

mod cpu;
mod owners;
mod plans;
mod sets;
mod streams;

use convfuse::DType;

use crate::torch::shim::Torch;
use crate::torch::tensor::{Place, TorchTensor};

pub(crate) use cpu::must_not_be_forked;
pub(crate) use owners::{begin, forget, kept, release};

/// One call of the operator.
pub(crate) struct Call<'a> {
    pub(crate) torch: &'static Torch,
    pub(crate) x: &'a TorchTensor,
    pub(crate) parameters: &'a [TorchTensor],
    pub(crate) inputs: &'a [TorchTensor],
    pub(crate) chain: &'a str,
    pub(crate) owner: i64,
    pub(crate) is_fast: bool,
}

impl Call<'_> {
    /// All inputs, the first one first.
    fn all_inputs(&self) -> impl Iterator<Item = &TorchTensor> {
        std::iter::once(self.x).chain(self.inputs)
    }

    /// Device and element type of the inputs. Refuses inputs that differ in them.
    fn kind(&self) -> Result<(Place, DType), String> {
        let (place, dtype) = (self.x.place()?, self.x.dtype("the input")?);
        for input in self.inputs {
            if input.place()? != place {
                return Err("convfuse: a further input is on another device than the first".into());
            }
            if input.dtype("a further input")? != dtype {
                return Err(
                    "convfuse: a further input has another element type than the first".into(),
                );
            }
        }
        Ok((place, dtype))
    }
}

/// The output of a call.
///
/// # Errors
/// In words, what is wrong with it.
pub(crate) fn run(call: &Call<'_>) -> Result<TorchTensor, String> {
    let owner = owners::owner(call)?;
    let (place, dtype) = call.kind()?;
    match place.is_cuda {
        true => plans::run(&owner, call, place, dtype),
        false => cpu::run(&owner, call, place, dtype),
    }
}

/// What the library says, in words that name it.
fn said(error: &convfuse::Error) -> String {
    match error {
        convfuse::Error::InCapture { .. } => format!(
            "convfuse: {error}. Call the module once with an input of this shape before the capture, as for any warm-up; after its \
             parameters changed, too"
        ),
        _ => format!("convfuse: {error}"),
    }
}
