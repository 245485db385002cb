//! Runs on the CPU.

use std::sync::{LazyLock, OnceLock};

use convfuse::graph::Chain;
use convfuse::{DType, Device, Model, Stream};

use super::call::{Call, inputs, over, said};
use super::kept::Kept;
use crate::chains::{chain, options};
use crate::torch::tensor::{Place, TorchTensor};

/// Chains by their text. There is nothing else to keep: the CPU backend prepares nothing.
pub(super) static CHAINS: Kept<Chain> = Kept::new();

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
pub(super) fn run(call: &Call<'_>, place: Place, dtype: DType) -> Result<TorchTensor, String> {
    static STREAM: LazyLock<Result<Stream, String>> =
        LazyLock::new(|| Device::cpu().stream().map_err(said));
    must_not_be_forked()?;
    let stream = STREAM.as_ref().map_err(String::clone)?;
    let chain = CHAINS.get(call.chain, &[], || chain(call.chain))?;
    // SAFETY: the caller holds the tensors, and nobody writes to them, until this returns.
    let (tensors, parameters) = unsafe {
        let tensors = call.input_tensors(stream, dtype)?;
        (tensors, call.parameter_tensors(&chain, stream)?)
    };
    let model = Model::from_tensors(stream, &*chain, parameters, dtype).map_err(said)?;
    let inputs = inputs(chain.inputs(), &tensors)?;
    let options = options(call.is_fast, call.is_batch_invariant).output_layout(call.layout()?);
    let mut plan = model.plan_for(stream, inputs.clone(), &options).map_err(said)?;
    let shape = plan.output_shape().iter().map(|&extent| extent as i64);
    let shape: Vec<i64> = shape.collect();
    let number = call.inputs[0].dtype_number()?;
    let output = TorchTensor::empty(call.torch, &shape, plan.output_layout(), number, place)?;
    let (_, strides) = output.layout()?;
    let data = output.data_mut()?;
    // SAFETY: the output is fresh memory that is held until this returns.
    let mut y = unsafe { over(stream, data, &shape, strides, dtype)? };
    plan.execute(inputs, &mut y).map_err(said)?;
    Ok(output)
}
