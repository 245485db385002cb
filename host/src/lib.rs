//! Fused convolution pipelines for inference on NVIDIA GPUs, in Rust from the API to the kernels.
//!
//! A [`graph`] has layers: convolutions, norms, activations, pools. A [`Model`] is a graph with its
//! parameters. It runs neighbouring layers in few kernels, on a GPU, on the CPU, or in the emulator. The
//! kernels come with the crate, compiled: a program needs no CUDA SDK, and without a driver it runs on the
//! CPU. Results agree with PyTorch's within [derived bounds](ops#numerics) and repeat bit for bit.
//!
//! # A model from its files
//! Layers, as JSON (read by the crate `serde_json`) or by their constructors, and weights that PyTorch wrote
//! with safetensors' `save_file`:
//!
//! ```
//! use convfuse::graph::Chain;
//! use convfuse::{Device, Model, Options, Tensor, data};
//!
//! let text = r#"{"in_channels": 3, "layers": [
//!     {"conv2d": {"name": "conv", "out_channels": 8, "kernel_size": 3}},
//!     {"group_norm": {"name": "norm", "num_groups": 4}},
//!     {"relu": {}}
//! ]}"#;
//! # let folder = tempfile::tempdir()?;
//! # let weights = folder.path().join("weights.safetensors");
//! # let saved = serde_json::from_str::<Chain>(text)?;
//! # convfuse::Parameters::init(&saved, 42)?.save(&weights)?;
//! let chain: Chain = serde_json::from_str(text)?;
//! let device = Device::best(); // a GPU if one answers, else the CPU
//! let stream = device.stream()?;
//! # /*
//! let weights = "weights.safetensors"; // has conv.weight, conv.bias, norm.weight, norm.bias
//! # */
//! let model = Model::load(&stream, &chain, weights)?;
//!
//! // Arrays of the host, in and out.
//! let images = data::fill(1, (2, 3, 8, 8));
//! let features = model.forward_array(&images)?;
//! assert_eq!(features.shape(), [2, 8, 6, 6]);
//!
//! // Tensors on the device, and a plan that only launches.
//! let x = Tensor::from_array(&stream, &images)?;
//! let mut plan = model.plan(&stream, x.shape(), &Options::default())?;
//! let mut y = plan.output()?;
//! plan.execute(&x, &mut y)?;
//! assert_eq!(y.to_array::<f32>()?, features);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to find what
//!
//! | | |
//! |---|---|
//! | [`graph::Layer`] | **all layers**, each with its constructor; [`graph`] puts them together |
//! | [`guide`] | a table of all layers, chain files, weights, layouts, math modes, troubleshooting |
//! | [`limits`] | **missing** operators and platforms, and what to do instead |
//! | [`Device`], [`Stream`], [`Tensor`] | a GPU, the CPU or the emulator; work in order; arrays on a device |
//! | [`Model`], [`Plan`], [`Options`] | graphs with parameters; runs for one shape; math modes, partitions |
//! | [`Parameters`], [`LoadOptions`] | weights and their files |
//! | [`Replicas`], [`PinnedArray`] | several GPUs; host memory that GPUs copy by themselves |
//! | [`ops`], [`spec`] | PyTorch's operators as functions on tensors; their attributes |
//! | [`model::Explanation`] | the chosen kernels, the rejected ones, and the reasons |
//! | [`raw`], `dlpack` | memory, streams and allocators of other libraries |
//! | [`Error`] | typed errors with the actual value and the rule that it breaks |
//!
//! The repository's `README.md` shows a whole project (made by `convfuse new`), the command line, and figures
//! of speed. `host/examples` has a server, `examples/chains` has chain files, `docs/chain.schema.json` is
//! their JSON Schema, and `python` is the package for PyTorch. `DESIGN.md` says how kernels are chosen.
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `emulator` | yes | `Device::emulator` runs and checks GPU kernels on the CPU, for kernel authors |
//! | `dlpack` | no | exchange of tensors with other libraries by DLPack |
//!
//! The features `lab` and `interleavings` are for the project's own tests, and may change at any time.
//!
//! # Building
//! Rust 1.95 or later. Where no CUDA SDK is installed, the build script of `cust`, the binding to the driver,
//! needs one entry in the `.cargo/config.toml` of your project:
//!
//! ```toml
//! [env]
//! CUDA_LIBRARY_PATH = { value = ".cargo:/:/usr", relative = true } # one of these has a folder lib64
//! ```
//!
//! Debug builds are fast on the CPU if your project's manifest optimises the two crates that compute:
//!
//! ```toml
//! [profile.dev.package]
//! convfuse.opt-level = 3
//! matrixmultiply.opt-level = 3
//! ```
//!
//! # Tracing
//! The library emits [`tracing`](https://docs.rs/tracing) events. Without a subscriber an event costs one
//! load; the features `max_level_*` and `release_max_level_*` of that crate compile events out.
//!
//! | target | level | what |
//! |---|---|---|
//! | `convfuse::device` | info, debug | a GPU is opened (a span), or the CPU is used instead, and why |
//! | `convfuse::choice` | debug | the kernels that a run of layers takes |
//! | `convfuse::plan` | debug | the making of a plan (a span), its launches and its memory |
//! | `convfuse::copy` | debug, trace | arrays copied in chunks; copies, with their bytes |
//! | `convfuse::launch` | trace | launches: kernel, grid, block, shared memory, stream |
//! | `convfuse::load` | debug | a kernel is loaded (source and duration), or could not be cached |
//! | `convfuse::memory` | debug, trace | memory that is allocated, freed, or trimmed |
//! | `convfuse::fault` | error, debug | faults of the emulator; a lost device; failed driver calls |
//!
//! # Single operators
//! ```
//! use convfuse::{Device, Tensor, ops};
//! use convfuse::spec::{ClampSpec, MaxPool2dSpec};
//! use convfuse::ndarray::Array4;
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
/// The parts of a [`Fault`] that the emulator reports.
#[cfg(feature = "emulator")]
pub mod fault {
    #[doc(inline)]
    pub use cuda_std::emulator::{Earlier, FaultKind, ThreadId};
}
pub mod graph;
mod host_memory;
/// The guide for users: layers, files, graphs, weights, layouts, math modes, plans, threads, troubleshooting.
///
/// [project]: crate#building
/// [limits page]: crate::limits
/// [speed]: crate#where-to-find-what
/// [commands]: crate#where-to-find-what
/// [schema]: crate#where-to-find-what
/// [network schema]: crate#where-to-find-what
/// [server]: crate#where-to-find-what
/// [norm_silu]: crate#where-to-find-what
/// [lowering]: crate#where-to-find-what
/// [python]: crate#where-to-find-what
#[doc = ""]
#[doc = include_str!("guide.md")]
pub mod guide {}
/// Operators and platforms that the library lacks, and alternatives to them.
#[doc = ""]
#[doc = include_str!("limits.md")]
pub mod limits {}
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
#[doc(inline)]
pub use cuda_std::emulator::Fault;
#[cfg(feature = "emulator")]
pub use device::EmulatorOptions;
pub use device::{
    Carried, Counts, Device, DeviceInfo, DeviceProperties, Event, KernelLoad, KernelOrigin,
    PinnedArray, Stream, Tensor, kernel_cache, raw,
};
pub use dtype::{DType, Element, bf16, f16};
pub use error::{DriverError, Error, InputsError, Result};
#[doc(inline)]
pub use launch_config::{Arch, TensorRates};
#[doc(inline)]
pub use model::{Inputs, Model, Options, Plan, Replicas};
/// The crate of host arrays, in the version that this crate uses.
pub use ndarray;
pub use parameters::{
    GivenName, LayerTensor, MissingParameter, Parameters, ParametersError, ShapeMismatch,
};
pub use tensor_file::{LoadOptions, TensorFileError};
