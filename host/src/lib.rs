//! Fused convolution pipelines on the GPU, in Rust from the API down to the kernels.
//!
//! - [`Device`], [`Stream`], [`Tensor`]: a GPU, the CPU, or the emulator that runs the GPU's kernels on
//!   the CPU; work in order; arrays on a device.
//! - [`ops`]: PyTorch-equal operators on tensors.
//! - [`Model`]: a [`chain`] of layers with its parameters, under several strategies from one kernel per operator
//!   to fused ones.
//!
//! Shapes and attributes are checked before anything runs, errors are typed, and results repeat bit
//! for bit.
//!
//! # Tracing
//! The library tells [`tracing`](https://docs.rs/tracing) what it does. Without a subscriber that costs a load for each event;
//! the features `max_level_*` and `release_max_level_*` of that crate compile events out.
//!
//! | target | level | what |
//! |---|---|---|
//! | `convfuse::device` | info, debug | a GPU is opened (a span), or the CPU is used in its place and why |
//! | `convfuse::choice` | debug | the kernels that a run of layers takes |
//! | `convfuse::plan` | debug | the making of a plan (a span), its launches and its memory |
//! | `convfuse::copy` | debug, trace | arrays that go in chunks; copies, with their bytes |
//! | `convfuse::launch` | trace | launches: kernel, grid, block, shared memory, stream |
//! | `convfuse::load` | debug | a kernel is loaded, from where and how long that took; or could not be kept for the next process |
//! | `convfuse::memory` | debug, trace | memory that is allocated, given back, or trimmed |
//! | `convfuse::fault` | error, debug | what the emulator stopped; a device that is lost; driver calls that failed |
//!
//! # Examples
//! ```
//! use convfuse::{Device, Tensor, ops};
//! use convfuse::spec::{ClampSpec, MaxPool2dSpec};
//! use ndarray::Array4;
//!
//! let stream = Device::best().stream()?;
//! let x = Tensor::from_array(&stream, &Array4::<f32>::ones((2, 3, 8, 8)))?;
//! let pooled = ops::max_pool2d(&x, &MaxPool2dSpec::new([2, 2]))?;
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

pub mod chain;
mod contract;
mod conversion;
mod cpu;
pub mod data;
mod device;
#[cfg(feature = "dlpack")]
pub mod dlpack;
mod dtype;
mod error;
mod host_memory;
#[cfg(any(test, feature = "lab"))]
#[doc(hidden)]
pub mod lab;
mod lowering;
pub mod model;
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
pub use model::{Inputs, Model, Options, Plan, Replicas};
pub use parameters::{Parameters, ParametersError};
pub use tensor_file::{LoadOptions, TensorFileError};
