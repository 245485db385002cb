//! Plans and their execution.

use std::cell::Cell;

use convfuse::model::Launches;
use convfuse::raw::RawPointer;
use convfuse::spec::Layout;
use convfuse::{DType, Stream};

use super::call::{Call, inputs, said};
use super::kept::Kept;
use super::recorded::RecordedRuns;
use super::streams;
use crate::chains::{graph, options};
use crate::torch::memory::Workspace;
use crate::torch::tensor::{Place, TorchTensor};

/// Bytes of the widest access of kernels, so addresses are distinguished by this alignment.
const ALIGNMENT: usize = 16;

/// The least number of kernels for which a run is recorded as a graph.
const LEAST_RECORDED: usize = 8;

/// The launches for tensors of a certain layout.
pub(super) struct Plan {
    launches: Launches,
    /// Shapes and layouts.
    outputs: Box<[(Box<[i64]>, Layout)]>,
    workspace_bytes: i64,
    recorded: RecordedRuns,
}

/// The key consists of graph, device, math mode, batch invariance, and the element type, shape, strides and
/// alignment of each tensor.
pub(super) static PLANS: Kept<Plan> = Kept::new();

/// The key of a call within its graph, and the addresses of its tensors, inputs first.
#[derive(Default)]
struct Given {
    key: Vec<i64>,
    addresses: Vec<RawPointer>,
}

impl Given {
    /// Replaces the key and the addresses with those of a call.
    fn read(&mut self, call: &Call<'_>, place: Place, is_fast: bool) -> Result<(), String> {
        let Given { key, addresses } = self;
        key.clear();
        addresses.clear();
        key.extend([
            i64::from(place.index) << 1 | i64::from(place.is_cuda),
            i64::from(call.is_channels_last) << 2
                | i64::from(is_fast) << 1
                | i64::from(call.is_batch_invariant),
            call.inputs.len() as i64,
        ]);
        for tensor in call.inputs.iter().chain(call.parameters) {
            let ((shape, strides), data) = (tensor.layout()?, tensor.data()?);
            let is_aligned = data.addr().is_multiple_of(ALIGNMENT);
            let dtype = i64::from(tensor.dtype_number()?);
            key.push((dtype << 1 | i64::from(is_aligned)) << 8 | shape.len() as i64);
            key.extend_from_slice(shape);
            key.extend_from_slice(strides);
            addresses.push(data);
        }
        Ok(())
    }
}

fn plan(call: &Call<'_>, dtype: DType, is_fast: bool, stream: &Stream) -> Result<Plan, String> {
    // A plan loads kernels, which would invalidate a capture.
    if stream.is_capturing().map_err(said)? {
        let what = "prepare a run";
        return Err(said(convfuse::Error::InCapture { what }));
    }
    let graph = graph(call.graph)?;
    // SAFETY: only shapes, strides and addresses are read.
    let (tensors, parameters) = unsafe {
        let tensors = call.input_tensors(stream, dtype)?;
        (tensors, call.parameter_tensors(&graph, stream)?)
    };
    let inputs = inputs(graph.inputs(), &tensors)?;
    let options = options(is_fast, call.is_batch_invariant).output_layout(call.layout()?);
    let launches = Launches::functional(stream, &graph, inputs, &parameters, &options);
    let launches = launches.map_err(said)?;
    for &slot in launches.renewed() {
        let (name, tensor) = (&graph.parameters()[slot].name, &parameters[slot]);
        if tensor.dtype() != DType::F32 || !tensor.is_contiguous() {
            return Err(format!(
                "convfuse: {name}: a running statistic that is renewed must be float32, and dense"
            ));
        }
    }
    let outputs = launches.outputs().map(|(shape, layout)| {
        let extents = shape.iter().map(|&extent| extent as i64);
        (extents.collect(), layout)
    });
    Ok(Plan {
        outputs: outputs.collect(),
        workspace_bytes: i64::try_from(launches.workspace_bytes())
            .map_err(|_| "convfuse: the workspace is larger than any memory")?,
        recorded: RecordedRuns::default(),
        launches,
    })
}

/// Computes the outputs of a call, on a GPU in the order of PyTorch's current stream.
pub(super) fn run(call: &Call<'_>, place: Place, dtype: DType) -> Result<Vec<TorchTensor>, String> {
    thread_local! {
        /// Reused memory of calls. A call takes it; if the call fails, the next one allocates anew.
        static GIVEN: Cell<Given> = const {
            Cell::new(Given { key: Vec::new(), addresses: Vec::new() })
        };
    }
    let stream = match place.is_cuda {
        true => streams::current(call.torch, place.index)?,
        false => streams::cpu()?,
    };
    // Other types have a single math mode.
    let is_fast = call.is_fast && dtype == DType::F32;
    let mut given = GIVEN.take();
    given.read(call, place, is_fast)?;
    let make = || plan(call, dtype, is_fast, &stream);
    let plan = PLANS.get(call.graph, &given.key, make)?;
    if !(plan.launches.renewed().is_empty() || call.is_renewing) {
        return Err("convfuse: run: the chain renews running statistics, as run_ does".into());
    }
    // In a forked child, PyTorch's error message would say that memory is exhausted.
    let words = |words| stream.is_capturing().map_or_else(said, |_| words);
    let number = call.inputs[0].dtype_number()?;
    let outputs = plan.outputs.iter().map(|(shape, layout)| {
        TorchTensor::empty(call.torch, shape, *layout, number, place).map_err(words)
    });
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    let workspace = Workspace::new(call.torch, plan.workspace_bytes, place).map_err(words)?;
    let address = workspace.address()?;
    let (inputs, parameters) = given.addresses.split_at(call.inputs.len());
    // Running statistics are updated in place.
    let renewed = plan.launches.renewed().iter();
    let renewed = renewed.map(|&slot| call.parameters[slot].data_mut());
    let written = outputs.iter().map(TorchTensor::data_mut).chain(renewed);
    let written = written.collect::<Result<Vec<_>, _>>()?;
    let launches = &plan.launches;
    // SAFETY: by the key, inputs and parameters have the plan's layout. Outputs and workspace are new memory
    // of this stream, aligned to 512 bytes, and running statistics are dense. PyTorch orders uses of its
    // memory by its current stream, so memory that is freed below is reused only after this run.
    let launched = unsafe {
        match launches.kernels() < LEAST_RECORDED {
            true => launches.run(&stream, inputs, parameters, &written, address),
            false => {
                let given = [inputs, parameters];
                plan.recorded
                    .run(launches, &stream, given, &written, address)
            }
        }
    };
    GIVEN.set(given);
    launched.map_err(said)?;
    Ok(outputs)
}
