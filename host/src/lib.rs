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

pub mod chain;
mod contract;
mod cpu;
pub mod data;
mod device;
mod dtype;
mod error;
#[cfg(any(test, feature = "lab"))]
#[doc(hidden)]
pub mod lab;
pub mod model;
pub mod ops;
mod parameters;
mod program;
pub mod spec;
mod tensor_file;

pub use contract::LaunchError;
#[cfg(feature = "emulator")]
pub use cuda_std::emulator::Fault;
#[cfg(feature = "emulator")]
pub use device::EmulatorOptions;
pub use device::{
    Counts, Device, DeviceInfo, DeviceProperties, Event, PinnedArray, Stream, Tensor, raw,
};
pub use dtype::{DType, Element, bf16, f16};
pub use error::{DriverError, Error, Result};
pub use model::{Model, Options, Plan, Replicas};
pub use parameters::{Parameters, ParametersError};
pub use tensor_file::TensorFileError;
