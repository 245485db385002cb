//! Functions for the project's own command line and tests. They are not part of the library's interface, and
//! may change.

use cuda_std::{Instance, KernelArgs};
#[cfg(feature = "emulator")]
use launch_config::Arch;
use launch_config::LaunchShape;
use op_spec::graph::{
    BroadcastParameter, Chain, Graph, GraphProblem, Layer, LayerNormLayer, LinearLayer, OtherTensor,
};

use crate::device::{DType, Stream, Tensor};
#[cfg(feature = "emulator")]
use crate::device::{carried_kernels, emulated};
use crate::error::Result;
use crate::host_memory;
use crate::lowering::Work;
use crate::model::convolution;
use crate::model::{Inputs, Model, Options};
use crate::operators::pointwise;
use crate::ops::{
    adaptive_avg_pool2d, adaptive_avg_pool3d, add, avg_pool2d, avg_pool3d, batch_norm, div,
    group_norm, instance_norm, layer_norm, linear_with, log_softmax, max_pool2d, max_pool3d, mul,
    prelu, reduction, scale, softmax, sub, upsample,
};
use crate::spec::{ArithmeticOp, ShuffleSpec};

pub use crate::model::{explain_axes, forward_array_cut, launched_kernels, launches_axes};

/// The portable kernels of this build that no emulator of `sm_80` or its successors without kernels of their
/// own has run in this process.
#[cfg(feature = "emulator")]
pub fn portable_kernels_not_emulated() -> Vec<&'static str> {
    let portable = Arch::Sm80.name();
    let emulated = emulated();
    carried_kernels(portable)
        .filter(|name| !emulated.contains(&(portable, *name)))
        .collect()
}

/// Checks that the host can allocate this many bytes, for code that allocates infallibly.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory)
pub fn must_have_memory(bytes: usize) -> Result<()> {
    Ok(host_memory::reserve::<u8>(bytes).map(drop)?)
}

/// Launches a kernel that belongs to no operator. It reads `input`, if given, and writes `output`. The
/// function `arguments` makes the kernel's arguments from their addresses.
///
/// # Errors
/// [`Error::TensorInUse`](crate::Error::TensorInUse),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch); [`Error::Launch`](crate::Error::Launch) if the
/// launch contract is broken (nothing ran then); errors of a launch.
///
/// # Safety
/// The arguments meet the kernel's *Safety* section. The bytes behind the addresses are the tensors' bytes.
pub unsafe fn launch<A: KernelArgs>(
    stream: &Stream,
    kernel: &Instance<A>,
    shape: LaunchShape,
    input: Option<&Tensor>,
    output: &mut Tensor,
    arguments: impl FnOnce(*const u8, *mut u8) -> A,
) -> Result<()> {
    output.rewrite((kernel.name(), "output"), stream)?;
    let input = input.map(|input| input.read_on((kernel.name(), "input"), stream));
    let input = input.transpose()?;
    let address = (input.as_ref()).map_or(std::ptr::null(), |input| input.pointer());
    let arguments = arguments(address, output.output());
    // SAFETY: input and output stay open until the launch is queued; the caller promises the rest.
    unsafe { stream.launch(kernel, shape, arguments) }
}

/// Returns a strided view of a contiguous tensor, starting at element `first`; `None` if it exceeds the
/// tensor.
#[must_use]
pub fn as_strided(
    tensor: &Tensor,
    first: usize,
    shape: &[usize],
    strides: &[isize],
) -> Option<Tensor> {
    tensor.restrided(first, shape, strides)
}

/// Calls the operator function of a single layer. `parameters` are its parameters in PyTorch's order, or its
/// other inputs. `options` are for convolutions.
///
/// # Errors
/// The errors of the function.
///
/// # Panics
/// If a required parameter is missing.
pub fn layer(
    x: &Tensor,
    layer: &Layer,
    parameters: &[Tensor],
    options: &Options,
) -> Result<Tensor> {
    let (first, second) = (parameters.first(), parameters.get(1));
    let name = layer.operator();
    let weight = || first.unwrap_or_else(|| panic!("{name} has a parameter"));
    match layer {
        Layer::Linear(LinearLayer { dim: Some(_), .. })
        | Layer::LayerNorm(LayerNormLayer { dim: Some(_), .. }) => {
            let channels = x.shape().get(1).copied();
            let chain = Chain::new(channels.unwrap_or(0), [layer.clone()])?;
            let model = Model::from_tensors(x.stream(), &chain, parameters.to_vec(), x.dtype())?;
            model.forward_with(x, options)
        }
        Layer::Linear(_) => linear_with(x, weight(), second, options),
        Layer::Flatten(_)
        | Layer::Reshape(_)
        | Layer::Cat(_)
        | Layer::Narrow(_)
        | Layer::Pad(_)
        | Layer::Gate(_)
        | Layer::Shuffle(_) => {
            // Layers with a fixed number of axes accept an input without a batch axis.
            use ShuffleSpec::{PixelShuffle, PixelUnshuffle};
            let lacks_batch = match layer {
                Layer::Shuffle(PixelShuffle { .. } | PixelUnshuffle { .. }) => x.shape().len() == 3,
                Layer::Pad(of) => x.shape().len() == of.padding.dimensions() + 1,
                _ => false,
            };
            let channels = x.shape().get(usize::from(!lacks_batch)).copied();
            let chain = Chain::new(channels.unwrap_or(0), [layer.clone()])?;
            let further = chain.inputs().iter().zip(parameters);
            let inputs = further.fold(Inputs::new(x), |inputs, (name, y)| inputs.with(name, y));
            let model = Model::from_tensors(x.stream(), &chain, Vec::new(), x.dtype())?;
            model.forward_with(inputs, options)
        }
        _ if layer.is_convolution() || layer.is_transposed_convolution() => {
            let of_layer = convolution::of_layer(x, layer, weight(), second, options);
            of_layer.expect("every convolution has a function")
        }
        Layer::GroupNorm(layer) => group_norm(x, first, second, &layer.attributes),
        Layer::InstanceNorm(layer) => instance_norm(x, first, second, &layer.attributes),
        Layer::LayerNorm(layer) => {
            let shape = &layer.normalized_shape;
            layer_norm(x, shape, first, second, &layer.attributes)
        }
        Layer::BatchNorm(layer) => {
            let of_batch = layer.is_by_batch();
            let head = if of_batch && !layer.affine { 0 } else { 2 };
            let (head, tail) = parameters.split_at(head);
            let (running, affine) = if of_batch { (tail, head) } else { (head, tail) };
            let running = running.first().zip(running.get(1)).map(<[_; 2]>::from);
            batch_norm(x, running, affine.first(), affine.get(1), &layer.attributes)
        }
        Layer::Scale(_) => scale(x, weight()),
        Layer::Prelu(_) => prelu(x, weight()),
        Layer::MaxPool2d(pool) => max_pool2d(x, pool),
        Layer::Upsample(spec) => upsample(x, spec),
        Layer::Softmax(spec) => softmax(x, spec),
        Layer::LogSoftmax(spec) => log_softmax(x, spec),
        Layer::Reduction(spec) => reduction(x, spec),
        Layer::Arithmetic(layer) => {
            let channels = x.shape().get(1).copied();
            let is_vector =
                weight().shape().len() == 1 && weight().shape().first().copied() == channels;
            let (true, OtherTensor::Parameter(BroadcastParameter { shape: None, .. })) =
                (is_vector, &layer.other)
            else {
                return arithmetic(x, layer.operation, weight());
            };
            // A chain with an unknown number of dimensions gives values of channels no trailing extents of 1.
            let mut shape = vec![1; x.shape().len() - 1];
            shape[0] = weight().shape()[0];
            let strides = vec![1; shape.len()];
            let other = as_strided(weight(), 0, &shape, &strides);
            arithmetic(x, layer.operation, &other.expect("as many elements"))
        }
        Layer::MaxPool3d(pool) => max_pool3d(x, pool),
        Layer::AvgPool2d(pool) => avg_pool2d(x, pool),
        Layer::AvgPool3d(pool) => avg_pool3d(x, pool),
        Layer::AdaptiveAvgPool2d(pool) => adaptive_avg_pool2d(x, pool),
        Layer::AdaptiveAvgPool3d(pool) => adaptive_avg_pool3d(x, pool),
        Layer::Pointwise(function) => pointwise::apply(x, function),
        _ => unreachable!("every layer has a function"),
    }
}

fn arithmetic(x: &Tensor, operation: ArithmeticOp, other: &Tensor) -> Result<Tensor> {
    match operation {
        ArithmeticOp::Add => add(x, other),
        ArithmeticOp::Sub => sub(x, other),
        ArithmeticOp::Mul => mul(x, other),
        ArithmeticOp::Div => div(x, other),
        _ => unreachable!("every operation has a function"),
    }
}

/// Returns lower bounds for any implementation: the bytes of inputs, output and parameters, each counted
/// once, and the operations of the convolutions.
#[must_use]
pub fn bytes_and_flop(graph: &Graph, problem: &GraphProblem, dtype: DType) -> (u64, u64) {
    let Work { bytes, flop } = Work::of_all(graph, problem, dtype);
    (bytes, flop)
}
