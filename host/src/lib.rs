//! Fused convolution pipelines for inference on NVIDIA GPUs, in Rust from the API to the kernels.
//!
//! A [`graph`] has layers: convolutions, norms, activations, pools. A [`Model`] is a graph with its
//! parameters. It runs neighbouring layers in few kernels, on a GPU, on the CPU, or in the emulator.
//!
//! - [`Device`], [`Stream`], [`Tensor`]: a GPU, the CPU or the emulator; work in order; arrays on a device.
//! - [`ops`]: PyTorch's operators on tensors, one function each.
//! - [`Model`], [`Plan`], [`Options`]: graphs of layers, prepared for one shape, under several strategies.
//!
//! The guide (`docs/guide.md` in the repository) has layouts, math modes, weights, plans and troubleshooting.
//! Its section "Layers" lists every layer with its attributes; [`graph::Layer`] has their constructors.
//!
//! Shapes and attributes are checked before anything runs, errors are typed, and results repeat bit for bit.
//!
//! # Example
//! ```
//! use convfuse::graph::{Chain, Layer};
//! use convfuse::{Device, Model, data};
//!
//! let layers = (
//!     Layer::conv2d("conv", 8, 3).bias(false),
//!     Layer::group_norm("norm", 4),
//!     Layer::relu(),
//! );
//! let chain = Chain::new(3, layers)?;
//! let model = Model::init(&Device::cpu().stream()?, &chain, 42)?; // Device::best() takes a GPU if there is one
//! let y = model.forward_array(&data::fill(1, (2, 3, 8, 8)))?;
//! assert_eq!(y.shape(), [2, 8, 6, 6]);
//! assert!(y.iter().all(|&value| value >= 0.0));
//! # Ok::<(), convfuse::Error>(())
//! ```
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `emulator` | yes | [`Device::emulator`], which runs the GPU's kernels on the CPU and checks each step |
//! | `dlpack` | no | tensors from and for other libraries, by DLPack |
//!
//! # Tracing
//! The library emits [`tracing`](https://docs.rs/tracing) events. Without a subscriber an event costs one
//! load; the features `max_level_*` and `release_max_level_*` of that crate compile events out.
//!
//! | target | level | what |
//! |---|---|---|
//! | `convfuse::device` | info, debug | a GPU is opened (a span), or the CPU is used in its place and why |
//! | `convfuse::choice` | debug | the kernels that a run of layers takes |
//! | `convfuse::plan` | debug | the making of a plan (a span), its launches and its memory |
//! | `convfuse::copy` | debug, trace | arrays copied in chunks; copies, with their bytes |
//! | `convfuse::launch` | trace | launches: kernel, grid, block, shared memory, stream |
//! | `convfuse::load` | debug | a kernel is loaded, from where and how long that took; or could not be kept for the next process |
//! | `convfuse::memory` | debug, trace | memory that is allocated, freed, or trimmed |
//! | `convfuse::fault` | error, debug | faults of the emulator; a lost device; failed driver calls |
//!
//! # Single operators
//! ```
//! use convfuse::{Device, Tensor, ops};
//! use convfuse::spec::{ClampSpec, MaxPool2dSpec};
//! use ndarray::Array4;
//!
//! let stream = Device::best().stream()?;
//! let x = Tensor::from_array(&stream, &Array4::<f32>::ones((2, 3, 8, 8)))?;
//! let pooled = ops::max_pool2d(&x, &MaxPool2dSpec::new(2))?;
//! let y = ops::clamp(&pooled, &ClampSpec::new(0.0, 0.5))?;
//! assert_eq!(y.shape(), [2, 3, 4, 4]);
//! assert!(y.to_array::<f32>()?.iter().all(|&value| value == 0.5));
//! # Ok::<(), convfuse::Error>(())
//! ```

#![cfg_attr(
    feature = "interleavings",
    allow(
        clippy::large_enum_variant,
        reason = "locks that are scheduled are large"
    )
)]

mod contract;
mod conversion;
mod cpu;
pub mod data;
mod device;
#[cfg(feature = "dlpack")]
pub mod dlpack;
mod dtype;
mod error;
pub mod graph;
mod host_memory;
#[cfg(any(test, feature = "lab"))]
#[doc(hidden)]
pub mod lab;
mod lowering;
pub mod model;
mod operators;
pub mod ops;
mod parameters;
mod program;
pub mod spec;
mod sync;
mod tensor_file;

pub use contract::LaunchError;
#[cfg(feature = "emulator")]
pub use cuda_std::emulator::Fault;
#[cfg(feature = "emulator")]
pub use device::EmulatorOptions;
pub use device::{
    Carried, Counts, Device, DeviceInfo, DeviceProperties, Event, KernelLoad, KernelOrigin,
    PinnedArray, Stream, Tensor, kernel_cache, raw,
};
pub use dtype::{DType, Element, bf16, f16};
pub use error::{DriverError, Error, InputsError, Result};
pub use launch_config::Arch;
pub use model::{Inputs, Model, Options, Plan, Replicas};
/// The crate of the host's arrays, in the version that this crate takes them in.
pub use ndarray;
pub use parameters::{LayerTensor, Parameters, ParametersError};
pub use tensor_file::{LoadOptions, TensorFileError};
