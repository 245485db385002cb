//! The library's error type.

mod driver;
mod from;
mod inputs;

pub use driver::DriverError;
pub use inputs::InputsError;

use crate::contract::LaunchError;
use crate::dtype::DType;

/// The error type of the library.
///
/// An error's text is complete: it includes the text of the error that it wraps. A wrapped error is therefore
/// not repeated as the [`source`](std::error::Error::source). A source is a further cause, for example the
/// operating system's error.
///
/// # Examples
/// ```
/// use convfuse::graph::{Chain, GraphError, Layer};
/// use convfuse::{Device, Error, Model, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let model = Model::init(&stream, Chain::new(3, [Layer::conv2d("conv", 8, 3)])?, 1)?;
/// let x = Tensor::from_array(&stream, &data::fill(1, (2, 4, 9, 9)))?;
/// let error = model.forward(&x).unwrap_err();
/// assert_eq!(error.to_string(), "layer 0: conv2d: input[1] is 4, expected 3");
/// assert!(matches!(error, Error::Graph(GraphError::Layer { layer: 0, .. })));
/// # Ok::<(), Error>(())
/// ```
///
/// # State after an error
/// A refused argument leaves the device untouched; a lack of memory leaves it usable. Only a fault *inside* a
/// kernel ([`Error::Driver`] with an illegal address, say) makes a GPU's context unusable. The emulator also
/// recovers from faults.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes or attributes that the operator refuses.
    #[error(transparent)]
    Spec(#[from] op_spec::SpecError),

    /// A parameter file that cannot be read, or that lacks parameters of a model.
    #[error(transparent)]
    Weights(#[from] crate::tensor_file::TensorFileError),

    /// Values that do not match the parameters of a graph.
    #[error(transparent)]
    Parameters(#[from] crate::parameters::ParametersError),

    /// Layers that do not form a valid graph, or an input that a graph refuses.
    #[error(transparent)]
    Graph(#[from] op_spec::graph::GraphError),

    /// A text that names no partition of a graph.
    #[error(transparent)]
    Partition(#[from] op_spec::graph::PartitionError),

    /// Further inputs (besides the first) that do not match the inputs of a graph.
    #[error(transparent)]
    Inputs(#[from] InputsError),

    /// A further input of a graph that is refused as an argument, because of its shape, element type, device
    /// or order in memory.
    #[error("input {name}: {error}")]
    NamedInput {
        /// The input.
        name: String,
        /// The error about this input.
        error: Box<Error>,
    },

    /// No kernels implement a run of layers, or the kernels requested by name do not implement it.
    #[error("{layers}: no kernels{}: {reasons}", .asked.as_ref().map(|name| format!(" called {name}")).unwrap_or_default())]
    NoKernels {
        /// The operators of the run.
        layers: String,
        /// The names of the requested kernels.
        asked: Option<String>,
        /// The reason why each row of the kernel table refuses the run.
        reasons: String,
    },

    /// A model was given an empty list of devices.
    #[error("replicas: there are no devices, must be at least one")]
    NoDevices,

    /// A partition that was made for another graph.
    #[error("partition: covers {covered} layers, the model has {known}")]
    OtherPartition {
        /// The number of layers that the partition covers.
        covered: usize,
        /// The number of layers of the graph.
        known: usize,
    },

    /// No CUDA driver answers on this machine.
    #[error("gpu: {reason}")]
    NoDriver {
        /// The libraries that were tried, with their failures.
        reason: String,
    },

    /// The driver knows no device with this ordinal.
    #[error("gpu: ordinal is {ordinal}, but the driver sees {count} device(s), numbered from 0")]
    NoSuchDevice {
        /// The requested ordinal.
        ordinal: u32,
        /// The number of devices that the driver sees.
        count: u32,
    },

    /// A device name whose properties the library does not know.
    #[error("device is {name}, must be one of {known}")]
    UnknownDevice {
        /// The name.
        name: String,
        /// The names of all known devices.
        known: String,
    },

    /// The device is older than all kernels in this build.
    #[error("gpu: {name} has compute capability {}.{}, kernels need at least {}.{}", .actual.0, .actual.1, .required.0, .required.1)]
    TooOld {
        /// The device's name.
        name: String,
        /// The device's compute capability.
        actual: (u32, u32),
        /// The lowest compute capability of this build's kernels.
        required: (u32, u32),
    },

    /// The driver refused to compile a kernel.
    #[error(
        "gpu: the driver could not compile {kernel} from its PTX for {module} ({cause}):\n{log}"
    )]
    Jit {
        /// The kernel's symbol.
        kernel: &'static str,
        /// The architecture of the PTX, such as `sm_90a`.
        module: &'static str,
        /// The driver's error code.
        cause: DriverError,
        /// The compiler's log.
        log: String,
    },

    /// A kernel instance that was requested but is not in this build.
    #[error("{kernel}: no instance has the labels {labels}")]
    NoInstance {
        /// The kernel's name.
        kernel: &'static str,
        /// The requested labels, such as element types.
        labels: String,
    },

    /// This build has no kernel of this name for the device.
    #[error("{kernel}: the PTX for {module} has no kernel of this name")]
    MissingKernel {
        /// The kernel's symbol.
        kernel: &'static str,
        /// The architecture of the PTX.
        module: &'static str,
    },

    /// Device or host memory ran out. Everything allocated before stays valid.
    #[error("{device}: out of memory: {requested} bytes requested, {available}")]
    OutOfMemory {
        /// The device of the memory.
        device: String,
        /// The size in bytes of the allocation that failed.
        requested: u64,
        /// A description of the device's free memory.
        available: String,
    },

    /// A launch that breaks the kernel's or the device's limits; nothing was launched.
    #[error(transparent)]
    Launch(#[from] LaunchError),

    /// A problem that needs more blocks than a grid can have.
    #[error(
        "{operator}: the output needs more blocks than a grid has, limit {}",
        launch_config::MAX_BLOCKS
    )]
    TooManyBlocks {
        /// The name of the operator or of its kernel.
        operator: &'static str,
    },

    /// A driver call failed.
    #[error("gpu: {0}")]
    Driver(DriverError),

    /// The emulator stopped a kernel, or could not serve an allocation.
    #[cfg(feature = "emulator")]
    #[error("emulator: {0}")]
    Emulator(Box<cuda_std::emulator::Fault>),

    /// Tensors of two devices met in one operator.
    #[error("{operator}: {argument} is on {actual}, must be on {expected}")]
    DeviceMismatch {
        /// The operator's name.
        operator: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The argument's device.
        actual: String,
        /// The device of the other arguments.
        expected: String,
    },

    /// Tensors of different element types met, or an array was requested in a type other than the tensor's.
    #[error("{operator}: {argument} is {actual}, must be {expected}")]
    DTypeMismatch {
        /// The operator's name.
        operator: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The argument's element type.
        actual: DType,
        /// The element type that the operator needs.
        expected: DType,
    },

    /// An argument whose shape contradicts the other arguments.
    #[error("{operator}: {argument} has shape {actual:?}, must be {expected:?}")]
    ShapeMismatch {
        /// The operator's name.
        operator: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The argument's shape.
        actual: Vec<usize>,
        /// The shape that follows from the other arguments.
        expected: Vec<usize>,
    },

    /// An output tensor that other handles still share, or that lives on another stream.
    #[error("{operator}: the {argument} {reason}")]
    TensorInUse {
        /// The operator's name.
        operator: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The reason why the tensor cannot be overwritten.
        reason: &'static str,
    },

    /// A feature that the device does not have.
    #[error("{device} has no {what}")]
    Unsupported {
        /// The device.
        device: String,
        /// The requested feature.
        what: &'static str,
    },

    /// A tensor that is not dense and row-major, where kernels require it.
    #[error("{operator}: the {argument} is not contiguous")]
    NotContiguous {
        /// The operator's name.
        operator: &'static str,
        /// The argument at fault.
        argument: &'static str,
    },

    /// A tensor with another memory layout than the plan was made for.
    #[error(
        "{operator}: the {argument} is {actual}, must be {expected}: {}",
        way_out(argument)
    )]
    LayoutMismatch {
        /// The operator's name.
        operator: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// The argument's layout: the extents and strides, in elements, of its merged axes.
        actual: String,
        /// The expected layout.
        expected: String,
    },

    /// A range beyond an axis of a tensor, or a step of 0.
    #[error(
        "slice: the range of axis {axis} is {start}..{end} by {step}, must lie within 0..{extent}, by 1 or more"
    )]
    BadSlice {
        /// The axis.
        axis: usize,
        /// The first index.
        start: usize,
        /// The index after the last.
        end: usize,
        /// The distance between two indices.
        step: usize,
        /// The extent of the axis.
        extent: usize,
    },

    /// An axis that a tensor does not have.
    #[error("{operator}: axis is {axis}, must be less than the tensor's rank, {rank}")]
    NoSuchAxis {
        /// The operator's name.
        operator: &'static str,
        /// The axis, counted from 0.
        axis: usize,
        /// The number of axes of the tensor.
        rank: usize,
    },

    /// A list of axes that is not a permutation of the tensor's axes.
    #[error("permute: axes are {axes:?}, must be each axis once of a tensor of rank {rank}")]
    NoPermutation {
        /// The axes that were given.
        axes: Vec<usize>,
        /// The number of axes of the tensor.
        rank: usize,
    },

    /// A shape whose number of elements differs from the tensor's.
    #[error(
        "reshape: the tensor has shape {actual:?}, shape {wanted:?} must have as many elements"
    )]
    BadReshape {
        /// The tensor's shape.
        actual: Vec<usize>,
        /// The requested shape.
        wanted: Vec<usize>,
    },

    /// An operator was given an empty list of tensors.
    #[error("{operator}: there are no tensors, must be at least one")]
    NoTensors {
        /// The operator's name.
        operator: &'static str,
    },

    /// An address that is not aligned for the element type, or for a kernel's output.
    #[error("{operator}: address {address:#x} is no multiple of {alignment}")]
    Misaligned {
        /// The operator's name.
        operator: &'static str,
        /// The address.
        address: usize,
        /// The required alignment: the bytes of an element or of a vector access.
        alignment: usize,
    },

    /// A null pointer for a tensor with elements.
    #[error("{operator}: the address is null, but there are elements")]
    NullPointer {
        /// The operator's name.
        operator: &'static str,
    },

    /// A DLPack element type that this library does not support.
    #[error(
        "from_dlpack: the tensor has elements of type code {code}, {bits} bits and {lanes} lane(s), must be f32 (2, 32, 1), f16 (2, 16, 1) or bf16 (4, 16, 1)"
    )]
    ForeignDType {
        /// DLPack's type code.
        code: u8,
        /// Bits of one lane.
        bits: u8,
        /// Lanes (numbers) of one element.
        lanes: u16,
    },

    /// A DLPack version that this library does not support.
    #[error("from_dlpack: the tensor is of DLPack's major version {actual}, must be {expected}")]
    ForeignVersion {
        /// The major version of the tensor.
        actual: u32,
        /// The supported version.
        expected: u32,
    },

    /// An invalid DLPack description, or a tensor that DLPack cannot describe.
    #[error("{operator}: {error}")]
    ForeignTensor {
        /// The name of the operation.
        operator: &'static str,
        /// The defect of the description.
        error: Box<dyn std::error::Error + Send + Sync>,
    },

    /// An operation that a graph cannot contain, on a stream in capture.
    #[error("gpu: a stream in capture cannot {what}; do it before the capture")]
    InCapture {
        /// The refused operation.
        what: &'static str,
    },

    /// The default stream of one thread was used in another thread, where it has no handle.
    #[error("gpu: the default stream of another thread cannot be used in this one; make a stream")]
    OtherThread,

    /// The process was forked from one that had used a GPU.
    #[error(
        "gpu: this process was forked from one that had used a GPU, after which the driver works in the parent only; start processes before the first use of a GPU, or by spawn or forkserver"
    )]
    Forked,

    /// A stream in capture had to read a tensor of another stream for the first time. A graph cannot wait for
    /// work outside of it.
    #[error(
        "gpu: a stream in capture cannot wait for a tensor of another stream; read it on this stream before the capture"
    )]
    OtherStreamInCapture,
}

impl Error {
    /// Returns whether the device is unusable for the rest of this process, after a fault of a kernel or of
    /// the hardware. The driver then answers every further call for the device with the same error. Host data
    /// is unaffected. A new process can use the device, unless the hardware is broken.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            Error::Driver(error) | Error::Jit { cause: error, .. } => error.is_fatal(),
            Error::Forked => true,
            _ => false,
        }
    }
}

/// The operator's name and the argument's name, for an error message.
pub(crate) type At = (&'static str, &'static str);

/// The library's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns the advice for a tensor whose memory layout differs from the expected one.
fn way_out(argument: &str) -> &'static str {
    match argument.starts_with("output") {
        true => "Plan::output() allocates one; Options::output_layout chooses among layouts",
        false => {
            "give the tensor that contiguous() makes of it to a plan for contiguous ones, or make a plan for \
             tensors such as this one by Model::plan_for"
        }
    }
}
