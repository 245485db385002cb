//! The library's error type.

mod driver;
mod from;
mod inputs;

pub use driver::DriverError;
pub use inputs::InputsError;

use op_spec::graph::Graph;

use crate::contract::LaunchError;
use crate::dtype::DType;

/// The error type of the library.
///
/// An error's text is whole: it has that of the error that it is made of, which is then no
/// [`source`](std::error::Error::source); a source is a further cause, such as the system's.
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
/// # What is left
/// A refused argument leaves the device untouched; a lack of memory leaves it usable. Only a fault *inside* a
/// kernel ([`Error::Driver`] with an illegal address, say) makes a GPU's context unusable. The emulator
/// recovers from faults, too.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes or attributes that the operator refuses.
    #[error(transparent)]
    Spec(#[from] op_spec::SpecError),

    /// A file of parameters that cannot be read, or does not hold what a model needs.
    #[error(transparent)]
    Weights(#[from] crate::tensor_file::TensorFileError),

    /// Values that are not the parameters of a graph.
    #[error(transparent)]
    Parameters(#[from] crate::parameters::ParametersError),

    /// Layers that are no graph, or an input that a graph refuses.
    #[error(transparent)]
    Graph(#[from] op_spec::graph::GraphError),

    /// Further inputs that are not those of a graph.
    #[error(transparent)]
    Inputs(#[from] InputsError),

    /// What is wrong with a further input of a graph as an argument: its shape, element type, device or order
    /// in memory.
    #[error("input {name}: {error}")]
    NamedInput {
        /// The input.
        name: String,
        /// What is wrong with it.
        error: Box<Error>,
    },

    /// No kernels implement a run of layers, or not those that were asked for by name.
    #[error("{layers}: no kernels{}: {reasons}", .asked.as_ref().map(|name| format!(" called {name}")).unwrap_or_default())]
    NoKernels {
        /// The operators of the run.
        layers: String,
        /// The kernels that were asked for.
        asked: Option<String>,
        /// The refusal of each row of the table.
        reasons: String,
    },

    /// A model on an empty list of devices.
    #[error("replicas: there are no devices, must be at least one")]
    NoDevices,

    /// A partition that was made for another graph.
    #[error("partition: covers {covered} layers, the model has {known}")]
    OtherPartition {
        /// Layers that it covers.
        covered: usize,
        /// Layers of the graph.
        known: usize,
    },

    /// No CUDA driver answers on this machine.
    #[error("gpu: {reason}")]
    NoDriver {
        /// The libraries that were looked for, and the failures.
        reason: String,
    },

    /// The driver knows no device with this ordinal.
    #[error("gpu: ordinal is {ordinal}, but the driver sees {count} device(s), numbered from 0")]
    NoSuchDevice {
        /// The requested ordinal.
        ordinal: u32,
        /// How many devices the driver sees.
        count: u32,
    },

    /// No properties are known of a device of this name.
    #[error("device is {name}, must be one of {known}")]
    UnknownDevice {
        /// The name.
        name: String,
        /// The names of those that are known.
        known: String,
    },

    /// The device is older than all kernels in this build.
    #[error("gpu: {name} has compute capability {}.{}, kernels need at least {}.{}", .actual.0, .actual.1, .required.0, .required.1)]
    TooOld {
        /// The device's name.
        name: String,
        /// Its compute capability.
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

    /// A requested kernel instance that this build does not have.
    #[error("{kernel}: no instance has the labels {labels}")]
    NoInstance {
        /// The kernel's name.
        kernel: &'static str,
        /// The labels that were asked for, such as element types.
        labels: String,
    },

    /// This build has no such kernel for the device.
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
        /// The size of the one allocation that failed.
        requested: u64,
        /// The device's free memory, in words.
        available: String,
    },

    /// A launch that breaks the kernel's or the device's limits; nothing was launched.
    #[error(transparent)]
    Launch(#[from] LaunchError),

    /// A problem so large that its blocks do not fit a grid.
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
        /// Its device.
        actual: String,
        /// The device of the other arguments.
        expected: String,
    },

    /// Tensors of two element types met, or an array was asked for in another type.
    #[error("{operator}: {argument} is {actual}, must be {expected}")]
    DTypeMismatch {
        /// The operator's name.
        operator: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// Its element type.
        actual: DType,
        /// The element type that the operator needs.
        expected: DType,
    },

    /// An argument whose shape does not follow from the others.
    #[error("{operator}: {argument} has shape {actual:?}, must be {expected:?}")]
    ShapeMismatch {
        /// The operator's name.
        operator: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// Its shape.
        actual: Vec<usize>,
        /// The shape that follows from the other arguments.
        expected: Vec<usize>,
    },

    /// A tensor was to be overwritten that other handles still share, or that lives on another stream.
    #[error("{operator}: the {argument} {reason}")]
    TensorInUse {
        /// The operator's name.
        operator: &'static str,
        /// The argument at fault.
        argument: &'static str,
        /// Why it cannot be overwritten.
        reason: &'static str,
    },

    /// A feature that the device does not have.
    #[error("{device} has no {what}")]
    Unsupported {
        /// The device.
        device: String,
        /// What was asked for.
        what: &'static str,
    },

    /// A tensor that is not dense and row-major where kernels need it to be.
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
        /// Its layout: the extents and strides in elements of its merged axes.
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
        /// From one index to the next.
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
        /// Axes of the tensor.
        rank: usize,
    },

    /// Axes that are not each axis of a tensor once.
    #[error("permute: axes are {axes:?}, must be each axis once of a tensor of rank {rank}")]
    NoPermutation {
        /// The axes that were given.
        axes: Vec<usize>,
        /// Axes of the tensor.
        rank: usize,
    },

    /// A shape of another number of elements than the tensor's.
    #[error(
        "reshape: the tensor has shape {actual:?}, shape {wanted:?} must have as many elements"
    )]
    BadReshape {
        /// The tensor's shape.
        actual: Vec<usize>,
        /// The shape that was asked for.
        wanted: Vec<usize>,
    },

    /// An operator on an empty list of tensors.
    #[error("{operator}: there are no tensors, must be at least one")]
    NoTensors {
        /// The operator's name.
        operator: &'static str,
    },

    /// An address that is not aligned for the element type, or for an output of kernels.
    #[error("{operator}: address {address:#x} is no multiple of {alignment}")]
    Misaligned {
        /// The operator's name.
        operator: &'static str,
        /// The address.
        address: usize,
        /// Bytes of an element, or of a vector access.
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
        /// Bits of a number.
        bits: u8,
        /// Numbers of an element.
        lanes: u16,
    },

    /// A DLPack version that this library does not support.
    #[error("from_dlpack: the tensor is of DLPack's major version {actual}, must be {expected}")]
    ForeignVersion {
        /// Its major version.
        actual: u32,
        /// The supported version.
        expected: u32,
    },

    /// An invalid DLPack description, or a tensor that DLPack cannot describe.
    #[error("{operator}: {error}")]
    ForeignTensor {
        /// What was asked for.
        operator: &'static str,
        /// What is wrong with it.
        error: Box<dyn std::error::Error + Send + Sync>,
    },

    /// An operation that a graph cannot contain, on a stream in capture.
    #[error("gpu: a stream in capture cannot {what}; do it before the capture")]
    InCapture {
        /// What was asked for.
        what: &'static str,
    },

    /// The default stream of one thread, used in another thread, where it has no handle.
    #[error("gpu: the default stream of another thread cannot be used in this one; make a stream")]
    OtherThread,

    /// The process was forked from one that had used a GPU.
    #[error(
        "gpu: this process was forked from one that had used a GPU, after which the driver works in the parent only; start processes before the first use of a GPU, or by spawn or forkserver"
    )]
    Forked,

    /// A stream in capture was to read a tensor of another stream that it has not read before: a graph cannot
    /// wait for work outside of it.
    #[error(
        "gpu: a stream in capture cannot wait for a tensor of another stream; read it on this stream before the capture"
    )]
    OtherStreamInCapture,
}

impl Error {
    /// Whether the device is unusable for the rest of this process, after a fault of a kernel or of the
    /// hardware: the driver answers every further call for the device with the same error. Host data is
    /// unaffected. A new process can use the device, unless it is broken.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            Error::Driver(error) | Error::Jit { cause: error, .. } => error.is_fatal(),
            Error::Forked => true,
            _ => false,
        }
    }

    /// Of what would run on the CPU device.
    pub(crate) fn no_kernels_on_cpu(graph: &Graph) -> Error {
        Error::NoKernels {
            layers: graph.operators(),
            asked: None,
            reasons: "the cpu device runs none; `explain_for` lists those of a GPU".to_owned(),
        }
    }
}

/// The argument that an error is about: the operator's name, and the argument's.
pub(crate) type At = (&'static str, &'static str);

/// The library's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What helps against a tensor with another memory layout.
fn way_out(argument: &str) -> &'static str {
    match argument.starts_with("output") {
        true => "Plan::output() allocates one; Options::output_layout chooses among layouts",
        false => {
            "give the tensor that contiguous() makes of it to a plan for contiguous ones, or make a plan for \
             tensors such as this one by Model::plan_for"
        }
    }
}
