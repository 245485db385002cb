//! One call of the operator, and what all that deals with it shares.

use std::sync::{Mutex, MutexGuard, PoisonError};

use convfuse::{DType, Inputs, Tensor};

use crate::torch::shim::Torch;
use crate::torch::tensor::{Place, TorchTensor};

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
    pub(super) fn all_inputs(&self) -> impl Iterator<Item = &TorchTensor> {
        std::iter::once(self.x).chain(self.inputs)
    }

    /// Device and element type of the inputs. Refuses inputs that differ in them.
    pub(super) fn kind(&self) -> Result<(Place, DType), String> {
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

/// The inputs of a chain whose further ones have these names: the first one, and those.
pub(super) fn inputs<'a>(
    names: &[String],
    tensors: &'a [Tensor],
) -> Result<Inputs<&'a Tensor>, String> {
    if names.len() + 1 != tensors.len() {
        let (actual, expected) = (tensors.len() - 1, names.len());
        return Err(format!(
            "convfuse: there are {actual} further inputs, the model has {expected}: {names:?}"
        ));
    }
    let further = names.iter().zip(&tensors[1..]);
    Ok(
        further.fold(Inputs::new(&tensors[0]), |inputs, (name, tensor)| {
            inputs.with(name, tensor)
        }),
    )
}

/// A panic under a lock of this crate leaves what it guards whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the library says, in words that name it.
pub(super) fn said(error: convfuse::Error) -> String {
    match error {
        convfuse::Error::InCapture { .. } => format!(
            "convfuse: {error}. Call the module once with an input of this shape before the capture, as for any warm-up; after its \
             parameters changed, too"
        ),
        _ => format!("convfuse: {error}"),
    }
}
