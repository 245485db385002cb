//! Runs on GPUs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convfuse::raw::RawPointer;
use convfuse::{DType, Model, Stream};

use super::call::{Call, inputs, lock, said};
use super::owners::Owner;
use super::plans::Prepared;
use super::sets::{Set, over, parameters};
use super::streams;
use crate::chains::options;
use crate::torch::allocator::apart;
use crate::torch::tensor::{Place, TorchTensor};

/// What kernels read at once, and so whether an address is a multiple of it matters.
const ALIGNMENT: usize = 16;

/// How the inputs lie, and their addresses.
struct Given {
    key: Vec<i64>,
    addresses: Vec<RawPointer>,
}

impl Given {
    fn of(call: &Call<'_>, is_fast: bool) -> Result<Given, String> {
        let mut key = Vec::with_capacity(24);
        let mut addresses = Vec::with_capacity(1 + call.inputs.len());
        key.push(i64::from(is_fast));
        for input in call.all_inputs() {
            let ((shape, strides), data) = (input.layout()?, input.data()?);
            key.push(shape.len() as i64);
            key.extend_from_slice(shape);
            key.extend_from_slice(strides);
            key.push(i64::from(data.addr().is_multiple_of(ALIGNMENT)));
            addresses.push(data);
        }
        Ok(Given { key, addresses })
    }
}

/// The set and the plan for a call.
fn prepared(
    owner: &Owner,
    call: &Call<'_>,
    (place, dtype): (Place, DType),
    stream: &Stream,
    given: &Given,
) -> Result<(Arc<Set>, Arc<Prepared>), String> {
    let set = lock(&owner.sets).get(call, place, dtype, || {
        must_not_capture(stream)?;
        apart(call.torch, place.index, stream, || {
            let home = streams::allocating(call.torch, place.index, stream);
            // SAFETY: the stream is PyTorch's current one.
            let tensors = unsafe { parameters(call, &owner.chain, &home, place, dtype)? };
            Model::from_tensors(&home, &owner.chain, tensors, dtype).map_err(said)
        })
    })?;
    let plan = lock(&set.plans).get(&given.key, || {
        must_not_capture(stream)?;
        let mut tensors = Vec::with_capacity(given.addresses.len());
        for (input, &data) in call.all_inputs().zip(&given.addresses) {
            let (shape, strides) = input.layout()?;
            // SAFETY: only shape, strides and address are looked at.
            tensors.push(unsafe { over(stream, data, shape, strides, dtype, Box::new(()))? });
        }
        let inputs = inputs(owner.chain.inputs(), &tensors)?;
        let options = options(given.key[0] != 0);
        let launches = apart(call.torch, place.index, stream, || {
            let made = set.model.launches(stream, inputs, &options);
            made.map_err(said)
        })?;
        let output_shape = launches.output_shape().iter();
        Ok(Prepared {
            key: given.key.clone().into(),
            output_shape: output_shape.map(|&extent| extent as i64).collect(),
            workspace_bytes: i64::try_from(launches.workspace_bytes())
                .map_err(|_| "convfuse: the workspace is larger than any memory")?,
            launches,
            is_captured: AtomicBool::new(false),
        })
    })?;
    Ok((set, plan))
}

/// Refuses to make what a graph cannot hold.
fn must_not_capture(stream: &Stream) -> Result<(), String> {
    let refused = convfuse::Error::InCapture {
        what: "prepare a run",
    };
    match stream.is_capturing().map_err(said)? {
        true => Err(said(refused)),
        false => Ok(()),
    }
}

/// The output of a call, in the order of PyTorch's current stream.
pub(super) fn run(
    owner: &Owner,
    call: &Call<'_>,
    place: Place,
    dtype: DType,
) -> Result<TorchTensor, String> {
    let stream = streams::current(call.torch, place.index)?;
    // Other types are multiplied in one way.
    let is_fast = call.is_fast && dtype == DType::F32;
    let given = Given::of(call, is_fast)?;
    let (set, plan) = prepared(owner, call, (place, dtype), &stream, &given)?;
    if !plan.is_captured.load(Ordering::Relaxed) && stream.is_capturing().map_err(said)? {
        plan.is_captured.store(true, Ordering::Relaxed);
        set.is_captured.store(true, Ordering::Relaxed);
    }
    let number = call.x.dtype_number()?;
    let output = TorchTensor::empty(call.torch, &plan.output_shape, number, place)?;
    let workspace = match plan.workspace_bytes {
        0 => None,
        bytes => Some(TorchTensor::empty(
            call.torch,
            &[bytes],
            call.torch.names.u8,
            place,
        )?),
    };
    let address = match &workspace {
        Some(workspace) => workspace.data_mut()?,
        None => std::ptr::null_mut(),
    };
    // SAFETY: the key says that inputs lie as those that the plan was made for; output and workspace are
    // fresh memory of the stream's, from multiples of 512 bytes on. PyTorch orders the uses of its memory by
    // its current stream, and what it is given back below it uses again behind this run. The set holds the
    // model.
    let launched = unsafe {
        plan.launches
            .run(&stream, &given.addresses, output.data_mut()?, address)
    };
    launched.map_err(said)?;
    Ok(output)
}
