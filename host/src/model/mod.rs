//! Models: chains of layers with parameters on a device, ready to run.
//!
//! [`Model`] holds a [`Graph`](crate::graph::Graph) and its parameters. For each input shape it chooses
//! kernels and makes a *program* of launches, which it keeps. [`Plan`] is a program with memory on one
//! stream; [`Captured`] is a plan as a CUDA graph. [`Explanation`] tells which kernels were chosen and why.
//!
//! # Examples
//! ```
//! use convfuse::graph::presets::KernelBench79;
//! use convfuse::{Device, Model, data};
//!
//! let stream = Device::best().stream()?;
//! let chain = KernelBench79 { out_channels: 5, ..KernelBench79::default() }.chain()?;
//! let model = Model::init(&stream, &chain, 7)?;
//! let y = model.forward_array(&data::fill(1, (2, 3, 6, 7, 8)))?;
//! assert_eq!(y.shape(), [2, 4, 5, 6]);
//! # Ok::<(), convfuse::Error>(())
//! ```

mod arrays;
mod captured;
mod comparison;
pub(crate) mod convolution;
mod explain;
mod explaining;
mod forward;
mod inputs;
mod launches;
mod loading;
mod pipelines;
mod plan;
mod programs;
mod replicas;
mod strategy;

#[cfg(any(test, feature = "lab"))]
pub use arrays::forward_array_cut;
pub use captured::Captured;
pub use comparison::{Comparison, Difference, Tolerance};
pub use explain::{Explanation, LaunchFacts};
#[cfg(any(test, feature = "lab"))]
pub use explain::{explain_axes, launches_axes};
#[cfg(any(test, feature = "lab"))]
pub use explaining::launched_kernels;
pub use forward::Model;
pub use inputs::Inputs;
pub use launches::{Launches, Recorded};
pub use plan::Plan;
pub use replicas::{ReplicaPlans, Replicas};
pub use strategy::Strategy;

pub use crate::lowering::{Considered, Options, RegionFacts, Verdict};
pub use crate::operators::precision::Precision;
