//! Runs on the CPU.

use std::sync::{LazyLock, OnceLock};

use convfuse::{DType, Device, Model, Stream};

use super::call::{Call, inputs, lock, said};
use super::owners::Owner;
use super::sets::{over, parameters};
use crate::chains::options;
use crate::torch::tensor::{Place, TorchTensor};

/// Refuses the child of a process that had used the CPU backend: it has a copy of the state of threads that
/// are not there.
///
/// # Errors
/// In words.
pub(crate) fn must_not_be_forked() -> Result<(), String> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    let this = std::process::id();
    match *FIRST.get_or_init(|| this) == this {
        true => Ok(()),
        false => Err("convfuse: cpu: this process is a fork of one that had used the CPU backend, whose threads it has not; start \
             processes before the first use, or by spawn"
            .into()),
    }
}

/// The output of a call.
pub(super) fn run(
    owner: &Owner,
    call: &Call<'_>,
    place: Place,
    dtype: DType,
) -> Result<TorchTensor, String> {
    static STREAM: LazyLock<Result<Stream, String>> =
        LazyLock::new(|| Device::cpu().stream().map_err(said));
    must_not_be_forked()?;
    let stream = STREAM.as_ref().map_err(String::clone)?;
    let set = lock(&owner.sets).get(call, place, dtype, || {
        // SAFETY: the model copies what it is given here; callers of an operator do not write to its
        // arguments meanwhile.
        let tensors = unsafe { parameters(call, &owner.chain, stream, place, dtype)? };
        Model::from_tensors(stream, &owner.chain, tensors, dtype).map_err(said)
    })?;
    let model = &set.model;
    let mut tensors = Vec::with_capacity(1 + call.inputs.len());
    for input in call.all_inputs() {
        let ((shape, strides), data) = (input.layout()?, input.data()?);
        // SAFETY: the caller holds the tensors, and nobody writes to them, until this returns.
        tensors.push(unsafe { over(stream, data, shape, strides, dtype, Box::new(()))? });
    }
    let inputs = inputs(owner.chain.inputs(), &tensors)?;
    let ran = || -> convfuse::Result<_> {
        let plan = model.plan_for(stream, inputs.clone(), &options(call.is_fast))?;
        let shape = plan.output_shape().iter().map(|&extent| extent as i64);
        Ok((shape.collect::<Vec<_>>(), plan))
    };
    let (shape, mut plan) = ran().map_err(said)?;
    let output = TorchTensor::empty(call.torch, &shape, call.x.dtype_number()?, place)?;
    let (_, strides) = output.layout()?;
    let data = output.data_mut()?;
    // SAFETY: the output is fresh memory that is held until this returns.
    let mut y = unsafe { over(stream, data, &shape, strides, dtype, Box::new(()))? };
    plan.execute(inputs, &mut y).map_err(said)?;
    Ok(output)
}
